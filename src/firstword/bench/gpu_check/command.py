"""Measure on one GPU, with PyTorch alone, what the patches change.

  scripts/gpu-check                            the seed tables: `build_attn_metadata` in three forms
  scripts/gpu-check --bundle FILE              and the patched functions beside the release's, cut from a bundle
  scripts/gpu-check --make-bundle FILE         make that bundle: once, where scripts/up has made an environment
  scripts/gpu-check --cpu --bundle FILE        the same on the CPU, with small sizes: a rehearsal
  scripts/gpu-check --out DIR --json           where the report goes; print it as JSON

It needs Python 3.12 or newer with PyTorch and NumPy, and this checkout; no vLLM, no network, no Docker. A wheel of
vllm-omni or step-audio2, of the version that patches/ is for, does as a bundle. Nothing in either is trusted: each
file must have the checksum that patches/checksums.json declares, as released and patched.

For each function the release and the patched file are called with the same random weights and inputs, of the real
models' sizes: are the results equal, how long does it take, how often does the host wait. All ends within the budget
(--budget, 14 minutes); what was not reached, and what cannot be cut, is listed.

The report folder then holds gpu-check.json and gpu-check.md.

Ends with 0 when all that was asked for was measured and equal; 1 when results differ or a part failed; 60 when the
budget was used up before the end; 52 without a GPU (use --cpu) or PyTorch; 12 when a bundle's file is not the declared
one; 2 for wrong arguments.
"""

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.native.labels import series_names

BUDGET = 14 * 60
# How many calls of each side; the most seconds that one case's calls take, and a part in all.
_GPU = {"runs": 200, "seconds": 10.0, "limit": 180.0}
_CPU = {"runs": 10, "seconds": 1.0, "limit": 120.0}
_REHEARSED_REQUESTS = (1, 8)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``scripts/gpu-check`` takes."""
    parser.add_argument("--bundle", type=Path, action="append", default=[], metavar="FILE", help="a bundle, or a wheel")
    parser.add_argument("--cpu", action="store_true", help="rehearse on the CPU, with small sizes")
    parser.add_argument("--out", type=Path, metavar="DIR", help="report folder (default: .firstword/reports/gpu-check)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON, not its table")
    parser.add_argument(
        "--budget", type=float, default=BUDGET, metavar="S", help="seconds for all of it (default: %(default)s)"
    )
    parser.add_argument("--commit", metavar="NAME", help="the commit, where git cannot tell it")
    parser.add_argument("--doc", type=Path, metavar="FILE", help="write the page of docs/ to FILE")
    parser.add_argument("--make-bundle", type=Path, metavar="FILE", help="write a bundle, and do nothing else")
    parser.add_argument(
        "--site-packages", type=Path, metavar="DIR", help="to make it from (default: the environment of scripts/up)"
    )


def run(args: argparse.Namespace) -> int:
    """Make a bundle, or measure.

    Raises:
        FirstwordError: What is needed is not there, or a bundle is not as declared.
    """
    if not args.budget > 0:
        raise FirstwordError(f"--budget is {args.budget}", mend="give seconds above 0", code=Exit.USAGE)
    patches = paths.root() / "patches"
    if args.make_bundle is not None:
        return _make(args.make_bundle, args.site_packages, patches)
    _check_python()
    return _measure(args, patches)


def _make(to: Path, site_packages: Path | None, patches: Path) -> int:
    from firstword.bench.gpu_check import sources

    where = site_packages or next((paths.home() / "engine/lib").glob("python3*/site-packages"), None)
    if where is None:
        raise FirstwordError(
            f"no engine's environment in {paths.home()}",
            mend="make one with scripts/up, or name one with --site-packages",
            code=Exit.ENVIRONMENT,
        )
    count = sources.make(to, where, patches)
    print(f"{to}: {count} files as released, {to.stat().st_size / 1e3:.0f} kB")
    return int(Exit.OK)


def _check_python() -> None:
    missing = [name for name in ("torch", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        raise FirstwordError(
            f"{sys.executable} has no {' and no '.join(missing)}",
            mend="set FIRSTWORD_PYTHON to the Python that has PyTorch and NumPy",
            code=Exit.ENVIRONMENT,
        )


def _measure(args: argparse.Namespace, patches: Path) -> int:
    from firstword.bench.gpu_check import document, host, sources
    from firstword.bench.gpu_check.catalogue import CASES
    from firstword.bench.gpu_check.parts import Deadline, Job, measure
    from firstword.bench.gpu_check.worker import TABLES

    deadline = Deadline(args.budget)
    _check_gpu(cpu=args.cpu)
    manifest = sources.read(args.bundle, patches).manifest
    out: Path = args.out or paths.home() / "reports/gpu-check"
    out.mkdir(parents=True, exist_ok=True)
    how = _CPU if args.cpu else _GPU
    settings: dict[str, Any] = {
        **{name: how[name] for name in ("runs", "seconds")},
        "device": "cpu" if args.cpu else "cuda:0",
        "sizes": "rehearsal" if args.cpu else "published",
        "requests": list(_REHEARSED_REQUESTS) if args.cpu else [],
        "bundles": [str(path.absolute()) for path in args.bundle],
        "patches": str(patches),
    }
    names = [TABLES, *(CASES if args.bundle else ())]
    measured = measure(names, Job({**settings, "what": "times"}, {}, how["limit"]), deadline, _say)
    # Counting needs no GPU: the parts' processes see none, and small sizes do.
    blind = {"CUDA_VISIBLE_DEVICES": ""}
    counting = Job({**settings, "what": "counts", "sizes": "rehearsal"}, blind, how["limit"])
    counted = measure(names, counting, deadline, lambda line: _say(f"{line}: waits, without a GPU"))
    report = document.report(
        host.describe(paths.root(), gpu=not args.cpu, named=args.commit),
        measured,
        counted,
        manifest=manifest,
        series=series_names(patches),
        rehearsal=args.cpu,
        seconds=(args.budget, deadline.taken()),
    )
    text = json.dumps(report, indent=1)
    (out / "gpu-check.json").write_text(text + "\n", encoding="utf-8")
    (out / "gpu-check.md").write_text(document.page(report), encoding="utf-8")
    if args.doc is not None:
        args.doc.write_text(document.whole(report), encoding="utf-8")
    print(text if args.json else document.page(report), flush=True)
    _say(f"written: {out / 'gpu-check.json'}, {out / 'gpu-check.md'}")
    for fault in report["faults"]:
        _say(fault)
    if report["faults"]:
        return int(Exit.DEFECT)
    return int(Exit.OK if report["complete"] else Exit.NOT_READY)


def _check_gpu(*, cpu: bool) -> None:
    import torch

    if not cpu and not torch.cuda.is_available():
        raise FirstwordError(
            f"PyTorch {torch.__version__} sees no GPU",
            mend="run it on a machine with an NVIDIA GPU, or rehearse with --cpu",
            code=Exit.ENVIRONMENT,
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
