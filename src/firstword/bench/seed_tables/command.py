"""``firstword bench seed-tables``: time and host waits of the three forms, by number of requests."""

import datetime
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from firstword.bench import machine
from firstword.bench.seed_tables.cases import agree, table
from firstword.bench.seed_tables.forms import FORMS, Form
from firstword.bench.syncs.counting import READ, Counts
from firstword.errors import Exit, FirstwordError

REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# Positions that a row of the table holds: as in 0.16.0 (16 codes in a frame), and a long context.
POSITIONS = (16, 2048)
SEQUENCE = 9  # the eighth of 15 predicted codes: one query token, nine positions
_AT = "docs/benchmarks/seed-tables"
_PUBLISHED = "0.99, 1.67, 2.28, 2.67 and 3.03 at 1, 4, 8, 32 and 128 requests (H100 NVL; end to end flat)"


def measure(*, runs: int, to: Path | None, doc: Path | None) -> int:
    """Compare, count, time, print; the order of the forms changes from run to run.

    Raises:
        FirstwordError: The forms do not agree.
    """
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    agreement = agree(device)
    if not all(agreement.values()):
        raise FirstwordError(f"the forms disagree: {agreement}", mend="this is a defect", code=Exit.DEFECT)
    report: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine.describe(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU: CPU",
        "runs": runs,
        "equal": agreement,
        "rows": [
            {"positions": positions, "requests": n, "waits": _waits(positions, n), **_times(device, positions, n, runs)}
            for positions in POSITIONS
            for n in REQUESTS
        ],
    }
    print("\n".join(lines(report)), flush=True)
    if to is not None:
        to.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if doc is not None:
        doc.write_text(page(report), encoding="utf-8")
    return int(Exit.OK)


def _batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(n, dtype=torch.int32), torch.full((n,), SEQUENCE, dtype=torch.int32)


def _waits(positions: int, n: int) -> dict[str, int]:
    """Return how often each form makes the host read from the device, counted without one."""
    from firstword.bench.syncs import claims, held

    found = {}
    for name, form in FORMS.items():
        with claims.counting(Counts()) as counts:
            blocks = table(n, positions, held.CLAIMED)
            with counts.phase(name):
                form(blocks, *_batch(n))
        found[name] = counts.total(name, READ)
    return found


def _times(device: torch.device, positions: int, n: int, runs: int) -> dict[str, Any]:
    """Return the median microseconds of each form."""
    blocks, batch = table(n, positions, device), _batch(n)
    taken: dict[str, list[float]] = {name: [] for name in FORMS}
    names = list(FORMS)
    for run in range(-3, runs):  # three to warm up
        for name in names[run % len(names) :] + names[: run % len(names)]:
            seconds = _time(FORMS[name], blocks, batch, device)
            if run >= 0:
                taken[name].append(seconds)
    return {"microseconds": {name: round(statistics.median(values) * 1e6, 1) for name, values in taken.items()}}


def _time(form: Form, blocks: Any, batch: tuple[torch.Tensor, torch.Tensor], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    form(blocks, *batch)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def lines(report: dict[str, Any]) -> list[str]:
    """Return the table's lines."""
    names = list(FORMS)
    table_ = [
        f"| positions | requests | {' | '.join(f'{name}, µs (reads)' for name in names)} | before ÷ after |",
        f"|{'---|' * (len(names) + 3)}",
    ]
    for row in report["rows"]:
        times, waits = row["microseconds"], row["waits"]
        cells = " | ".join(f"{times[name]} ({waits[name]})" for name in names)
        ratio = times["before"] / times["after"]
        table_.append(f"| {row['positions']} | {row['requests']} | {cells} | {ratio:.2f} |")
    return table_


def page(report: dict[str, Any]) -> str:
    """Return the page, as Markdown."""
    about, on_gpu = report["machine"], not report["device"].startswith("no GPU")
    cores = f"{about['cores']} cores ({about['processor']})"
    no_gpu = "**It has not been run on a GPU**: nothing waits here, so the times show the work of the host alone.\n"
    return "\n".join(
        [
            "# `build_attn_metadata` of vLLM-Omni 0.16.0, before and after #1614\n",
            f"`firstword bench seed-tables --json {_AT}.json --doc {_AT}.md`, {report['date']}: {report['device']}, "
            f"{cores}, load {about['load']:.1f} before, Python {about['python']}, "
            f"torch {report['torch']}. Medians of {report['runs']} calls, the forms taking turns; one query token at "
            f"position {SEQUENCE} of each request.\n",
            *([] if on_gpu else [no_gpu]),
            "\n".join(lines(report)) + "\n",
            "*Reads* are how often the host reads from the device, counted as in [syncs](syncs.md). The third form, "
            "its reviewer's, copies the columns that the longest sequence reaches; with 16 positions there is one "
            "column, and it is the second form.\n",
            f"All three give the same positions and slots in six cases: {'; '.join(report['equal'])}.\n",
            f"#1614's own figures, before ÷ after: {_PUBLISHED}.\n",
            "The method is gone since 0.18 ([patches](../../patches/README.md)); this is written anew from its "
            "description, and serves nothing.\n",
        ]
    )
