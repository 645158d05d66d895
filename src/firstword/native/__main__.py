"""``python -m firstword.native``: what ``scripts/up``, ``scripts/test`` and ``scripts/lock`` call."""

import argparse
import importlib
import signal
import sys
from types import FrameType

from firstword.errors import FirstwordError

COMMANDS = {
    "up": "firstword.native.up",
    "test": "firstword.native.testing",
    "lock": "firstword.native.locking",
}


def main(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    name, *rest = argv
    module = importlib.import_module(COMMANDS[name])
    parser = argparse.ArgumentParser(
        prog=f"scripts/{name}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_arguments(parser)
    if "--" in rest:
        split = rest.index("--")
        rest = [*rest[:split], "--pytest", *rest[split + 1 :]]
    options = parser.parse_args(rest)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        return int(module.run(options))
    except FirstwordError as error:
        print(f"scripts/{name}: {error}", file=sys.stderr)
        return int(error.code)
    except KeyboardInterrupt:
        return 130


def _leave(number: int, frame: FrameType | None) -> None:
    """Leave as by an exception, so that what was begun is undone."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
