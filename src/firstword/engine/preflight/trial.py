"""Import modules for real, in a process of its own.

Run as a script by the environment's interpreter: it reads a JSON list of ``[module, [names]]`` from stdin
and prints a JSON line ``[module, error]`` for each, after a line with the module alone before it starts, so
that a crash has a name. Nothing of firstword is imported here.
"""

import importlib
import json
import os
import sys


def main() -> None:
    """Try each module in turn; a failure of one doesn't stop the rest."""
    report = os.fdopen(os.dup(1), "w")
    # What imports print must not mix with the report.
    os.dup2(2, 1)
    for module, names in json.load(sys.stdin):
        print(json.dumps([module]), file=report, flush=True)
        error = None
        try:
            found = importlib.import_module(module)
            absent = next((name for name in names if not hasattr(found, name)), None)
            if absent:
                error = f"AttributeError: module '{module}' has no attribute '{absent}'"
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # SystemExit too: some modules exit when imported
            error = f"{type(raised).__name__}: {' '.join(str(raised).split())}"
        print(json.dumps([module, error]), file=report, flush=True)


if __name__ == "__main__":
    main()
