"""Measure some parts in this process, and write what comes out after each, a line of JSON.

``python -m firstword.bench.gpu_check.worker SETTINGS TOLD``, as `parts` starts it.
"""

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from firstword.bench.gpu_check.parts import FAILED, MEASURED, NOT_CUT, SKIPPED

TABLES = "seed tables"


def main(settings: dict[str, Any], told: Path) -> None:
    """Measure each part named; one that fails says why, and the others are measured."""
    with told.open("a", encoding="utf-8") as out:
        for name in settings["parts"]:
            out.write(json.dumps({"begun": name}) + "\n")
            out.flush()
            out.write(json.dumps({"part": name, **_outcome(name, settings)}) + "\n")
            out.flush()


def _outcome(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    from firstword.bench.gpu_check.case import NotHere
    from firstword.bench.gpu_check.cutting import CannotCut
    from firstword.errors import FirstwordError

    try:
        return {"state": MEASURED, "result": _measured(name, settings)}
    except CannotCut as error:
        return {"state": NOT_CUT, "why": str(error)}
    except NotHere as error:
        return {"state": SKIPPED, "why": str(error)}
    except FirstwordError as error:
        return {"state": FAILED, "why": error.cause}
    except Exception as error:
        traceback.print_exc()
        return {"state": FAILED, "why": f"{type(error).__name__}: {error}"}


def _measured(name: str, settings: dict[str, Any]) -> Any:
    import torch

    counts = settings["what"] == "counts"
    if name == TABLES:
        return _table_counts(settings) if counts else _tables(settings, torch.device(settings["device"]))
    from firstword.bench.gpu_check import measuring, sources
    from firstword.bench.gpu_check.case import NotHere
    from firstword.bench.gpu_check.catalogue import CASES

    case = CASES[name]
    files = sources.read([Path(path) for path in settings["bundles"]], Path(settings["patches"]))
    sizes = case.published if settings["sizes"] == "published" else case.rehearsal
    if sizes is None:
        raise NotHere("for a GPU alone: the release's class is of one size")
    if counts:
        return measuring.count(case, files, sizes)
    return measuring.measure(
        case, files, torch.device(settings["device"]), sizes, runs=settings["runs"], seconds=settings["seconds"]
    )


def _tables(settings: dict[str, Any], device: Any) -> Any:
    from firstword.bench.seed_tables import command

    return command.measured(runs=settings["runs"], device=device, requests=settings["requests"])


def _table_counts(settings: dict[str, Any]) -> Any:
    from firstword.bench.seed_tables import command

    return {
        f"{positions} {requests}": command.waits(positions, requests)
        for positions in command.POSITIONS
        for requests in settings["requests"] or command.REQUESTS
    }


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
