"""Check everything that serving a model will need, and say all that is missing.

  firstword preflight step-audio-2-mini-synthetic --port 8092   before an engine starts: seconds, no torch
  firstword preflight MODEL --shape asr-cpu                      recognition asks for less
  firstword preflight --device cuda --deep                       at image build: no model, real imports

Each finding says what is wrong, what it would have looked like later in stock vLLM-Omni, and the command
that mends it. The exit code is the finding's own, or 20 for several of different kinds.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from firstword import paths
from firstword.engine.config.files import device_by_name
from firstword.engine.preflight.context import Context, FilePin
from firstword.engine.preflight.finding import exit_code
from firstword.engine.preflight.installed import built_for
from firstword.engine.preflight.probes import Probes
from firstword.engine.preflight.requiring import report
from firstword.engine.preflight.run import run_checks
from firstword.errors import Exit, FirstwordError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``firstword preflight`` takes."""
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a name from `firstword models list`, or a folder")
    parser.add_argument("--shape", help="the deploy config to serve with (default: chosen by the devices present)")
    parser.add_argument("--deploy-config", type=Path, metavar="FILE", help="a deploy config of your own")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="default: the shape's, else what the environment is built for"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address the server will listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, help="its port (default: no port is checked)")
    parser.add_argument("--deep", action="store_true", help="import everything for real, read files against checksums")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run all checks; see the module's docstring.

    Raises:
        FirstwordError: The question itself makes no sense: no such model or shape.
    """
    started = time.monotonic()
    context = context_of(args)
    found = run_checks(context)
    code = exit_code(found)
    seconds = round(time.monotonic() - started, 1)
    if args.json:
        answer = {"ok": not found, "code": int(code), "seconds": seconds, "device": context.device}
        print(json.dumps(answer | {"findings": [finding.as_dict() for finding in found]}))
    elif found:
        print(f"firstword preflight: {report(found)}", file=sys.stderr)
    else:
        unseen = "" if args.model else "; devices, memory and disk were not looked at: they are judged for a MODEL"
        print(f"firstword preflight: nothing is missing ({context.device}, {seconds} s){unseen}")
    return int(code)


def context_of(args: argparse.Namespace) -> Context:
    """Return the context that the arguments describe.

    Raises:
        FirstwordError: There is no such model, or no such shape of it.
    """
    memory = paths.home() / "cache" / "preflight"
    if args.model is None:
        if args.shape or args.deploy_config:
            raise FirstwordError(
                "--shape and --deploy-config go with a MODEL", mend="name the MODEL, or leave them out", code=Exit.USAGE
            )
        device = args.device or built_for()
        return Context(device=device, host=args.host, port=args.port, deep=args.deep, memory=memory)
    folder, family, manifest = locate(args.model)
    deploy_config = args.deploy_config or _deploy_config(family, args)
    # One's own file may have any name.
    device = args.device or device_by_name(deploy_config) or built_for()
    return Context(
        device=device,
        family=family,
        model_dir=folder,
        deploy_config=deploy_config,
        host=args.host,
        port=args.port,
        deep=args.deep,
        manifest=manifest,
        memory=memory,
    )


def locate(model: str) -> tuple[Path, str, Mapping[str, FilePin] | None]:
    """Return a model's folder, its family and, for a published one, what its files must be.

    Unlike `firstword.engine.models.resolve` it neither downloads nor refuses what is incomplete: naming all
    that is missing is what preflight is for.

    Raises:
        FirstwordError: There is no such model, or its configuration cannot be read.
    """
    from firstword.engine import models
    from firstword.engine.models import made, record, resolution, verify

    entry, folder = resolution.find(model)
    if entry is None or entry.lock is None:
        folder = folder if entry is None else paths.home() / "checkpoints" / entry.name
        family = models.recognise(folder)[0] if entry is None else entry.family
        known = made.checksums(folder)
        return folder, family, {name: FilePin(None, sha256) for name, sha256 in known.items()} if known else None
    folder = models.models_folder() / entry.name
    files = verify.expected(entry.lock, record.Record.load(folder, entry.lock)) or entry.lock.files
    return folder, entry.family, {name: FilePin(file.size, file.sha256) for name, file in files.items()}


def _deploy_config(family: str, args: argparse.Namespace) -> Path:
    from firstword.engine.config import choose_shape, load
    from firstword.engine.config.files import folder

    shape = args.shape
    if not shape:
        gpus = [] if args.device == "cpu" else Probes().devices("cuda")
        shape = choose_shape(family, gpus, built_for=args.device or built_for())
    try:
        return load(family, shape).path
    except ImportError:  # PyYAML or jsonschema; the module check names it
        return folder(family) / f"{shape}.yaml"
