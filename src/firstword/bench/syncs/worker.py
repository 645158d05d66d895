"""Count in this process, whose packages are as they are, and write what was counted as JSON.

``python -m firstword.bench.syncs.worker OUT WORKLOAD…``: a script, so that stock and patched packages can
be counted side by side, each first on the path of a process of its own.
"""

import json
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from firstword.bench.syncs.counting import KINDS, Counts, Event
from firstword.bench.syncs.workload import Workload, counted, plain, same
from firstword.engine.models.folders import synthetic_folder


def describe(counts: Counts, *, equal: bool | None) -> dict[str, Any]:
    """Return what was counted as plain data."""
    return {
        "equal to plain CPU": equal,
        "phases": {name: _phase(events) for name, events in counts.events.items()},
        "operators": len(counts.operators),
        "not passed": counts.unpassed,
    }


def _phase(events: Counter[Event]) -> dict[str, Any]:
    totals = {kind: sum(n for event, n in events.items() if event.kind == kind) for kind in KINDS}
    listed = [{"times": n, **vars(event)} for event, n in sorted(events.items())]
    return {"totals": totals, "events": listed}


def count(workload: Workload, checkpoint: Path) -> dict[str, Any]:
    """Count one workload with held tensors, and compare what it gives with a plain run."""
    expected = plain(workload, checkpoint)
    result, counts = counted(workload, checkpoint)
    return describe(counts, equal=same(result, expected))


def count_on_cuda(workload: Workload, checkpoint: Path) -> dict[str, Any]:
    """Count one workload on a GPU, as CUDA reports it."""
    from firstword.bench.syncs.cuda import reported

    return describe(reported(workload, checkpoint), equal=None)


def main(out: Path, names: list[str]) -> None:
    """Count each workload; one that fails says why, and the others are counted."""
    import torch

    from firstword.bench.syncs.catalogue import WORKLOADS

    run = count_on_cuda if torch.cuda.is_available() else count
    results: dict[str, Any] = {}
    for name in names:
        workload = WORKLOADS[name]
        try:
            results[name] = run(workload, synthetic_folder(workload.model))
        except Exception as error:
            traceback.print_exc()
            results[name] = {"error": f"{type(error).__name__}: {error}"}
    how = f"CUDA on {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "held tensors on the CPU"
    out.write_text(json.dumps({"how": how, "torch": torch.__version__, "workloads": results}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
