"""``python -m firstword.bench.gpu_check``: what ``scripts/gpu-check`` calls."""

import argparse
import signal
import sys
from types import FrameType

from firstword import ending
from firstword.bench.gpu_check import command


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/gpu-check", description=command.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_arguments(parser)
    options = parser.parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    return ending.run("scripts/gpu-check", lambda: command.run(options), as_json=options.json)


def _leave(number: int, frame: FrameType | None) -> None:
    """Leave as by an exception, so that the worker is ended."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
