"""``python -m firstword.native``: what ``scripts/up``, ``test``, ``lock`` and ``gpu-smoke`` call."""

import argparse
import importlib
import signal
import sys
from types import FrameType

from firstword import ending
from firstword.errors import Exit

COMMANDS = {
    "up": "firstword.native.up",
    "test": "firstword.native.testing",
    "lock": "firstword.native.locking",
    "gpu-smoke": "firstword.native.gpu_smoke.command",
}


def main(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    name, *rest = argv or ("",)
    if name not in COMMANDS:
        known = ", ".join(f"scripts/{known}" for known in COMMANDS)
        print(f"scripts/native: {f'no command is called {name!r}' if name else 'names no command'}", file=sys.stderr)
        print(f"  mend: use {known}; each has --help", file=sys.stderr)
        return int(Exit.USAGE)
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
    return ending.run(f"scripts/{name}", lambda: int(module.run(options)))


def _leave(number: int, frame: FrameType | None) -> None:
    """Leave as by an exception, so that what was begun is undone."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
