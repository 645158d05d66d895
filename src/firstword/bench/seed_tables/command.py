"""``firstword bench seed-tables``: time and host waits of the three forms, by number of requests."""

import datetime
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from firstword.bench import machine
from firstword.bench.seed_tables.cases import agree, table
from firstword.bench.seed_tables.forms import FORMS, BlockTable, Form
from firstword.bench.syncs.counting import READ, Counts
from firstword.errors import Exit, FirstwordError

REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# Positions that a row of the table holds: as in 0.16.0 (16 codes in a frame), and a long context.
POSITIONS = (16, 2048)
SEQUENCE = 9  # the eighth of 15 predicted codes: one query token, nine positions
_AT = "docs/benchmarks/seed-tables"
_PUBLISHED = "0.99, 1.67, 2.28, 2.67 and 3.03 at 1, 4, 8, 32 and 128 requests (H100 NVL; end to end flat)"


def measure(*, runs: int, to: Path | None, doc: Path | None) -> int:
    """Compare, count, time, print.

    Raises:
        FirstwordError: The forms do not agree.
    """
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    report = measured(runs=runs, device=device)
    for row in report["rows"]:
        row["waits"] = waits(row["positions"], row["requests"])
    print("\n".join(lines(report)), flush=True)
    if to is not None:
        to.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if doc is not None:
        doc.write_text(page(report), encoding="utf-8")
    return int(Exit.OK)


def measured(
    *, runs: int, device: torch.device, requests: Sequence[int] = (), positions: Sequence[int] = ()
) -> dict[str, Any]:
    """Return all but the counts of `waits`; the order of the forms changes from run to run.

    On a GPU each row has besides the times between two CUDA events, and how often CUDA itself reports a wait.

    Raises:
        FirstwordError: The forms do not agree.
    """
    agreement = agree(device)
    if not all(agreement.values()):
        raise FirstwordError(f"the forms disagree: {agreement}", mend="this is a defect", code=Exit.DEFECT)
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine.describe(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU: CPU",
        "runs": runs,
        "equal": agreement,
        "rows": [
            {"positions": columns, "requests": n, **_times(device, columns, n, runs)}
            for columns in positions or POSITIONS
            for n in requests or REQUESTS
        ],
    }


def _batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(n, dtype=torch.int32), torch.full((n,), SEQUENCE, dtype=torch.int32)


def waits(positions: int, n: int) -> dict[str, int]:
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


def _reported(blocks: BlockTable, batch: tuple[torch.Tensor, torch.Tensor]) -> dict[str, int]:
    """Return how often CUDA reports that each form makes the host wait, in either direction."""
    from firstword.bench.syncs.cuda import watching

    counts = Counts()
    for name, form in FORMS.items():
        with watching(counts, name):
            form(blocks, *batch)
    return {name: counts.total(name, READ) for name in FORMS}


def _times(device: torch.device, positions: int, n: int, runs: int) -> dict[str, Any]:
    """Return the median microseconds of each form."""
    blocks, batch = table(n, positions, device), _batch(n)
    taken: dict[str, list[float]] = {name: [] for name in FORMS}
    on_device: dict[str, list[float]] = {name: [] for name in FORMS}
    names = list(FORMS)
    for run in range(-3, runs):  # three to warm up
        for name in names[run % len(names) :] + names[: run % len(names)]:
            seconds, between = _time(FORMS[name], blocks, batch, device)
            if run >= 0:
                taken[name].append(seconds)
                on_device[name].append(between)
    found: dict[str, Any] = {"microseconds": _medians(taken)}
    if device.type == "cuda":
        found |= {"cuda_microseconds": _medians(on_device), "cuda_reports": _reported(blocks, batch)}
    return found


def _medians(taken: dict[str, list[float]]) -> dict[str, float]:
    return {name: round(statistics.median(values) * 1e6, 1) for name, values in taken.items()}


def _time(
    form: Form, blocks: BlockTable, batch: tuple[torch.Tensor, torch.Tensor], device: torch.device
) -> tuple[float, float]:
    """Return seconds until all is done, as the host sees it and, on a GPU, between two CUDA events."""
    if device.type != "cuda":
        began = time.perf_counter()
        form(blocks, *batch)
        return time.perf_counter() - began, 0.0
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    began = time.perf_counter()
    first.record()
    form(blocks, *batch)
    last.record()
    torch.cuda.synchronize()
    return time.perf_counter() - began, first.elapsed_time(last) / 1e3


def lines(report: dict[str, Any]) -> list[str]:
    """Return the table's lines."""
    names = list(FORMS)
    on_gpu = any("cuda_microseconds" in row for row in report["rows"])
    how = "µs / µs between CUDA events (reads)" if on_gpu else "µs (reads)"
    table_ = [
        f"| positions | requests | {' | '.join(f'{name}, {how}' for name in names)} | before ÷ after |",
        f"|{'---|' * (len(names) + 3)}",
    ]
    for row in report["rows"]:
        cells = " | ".join(_cell(row, name) for name in names)
        ratio = row["microseconds"]["before"] / row["microseconds"]["after"]
        table_.append(f"| {row['positions']} | {row['requests']} | {cells} | {ratio:.2f} |")
    return table_


def _cell(row: dict[str, Any], name: str) -> str:
    between = f" / {row['cuda_microseconds'][name]}" if "cuda_microseconds" in row else ""
    reads = f" ({row['waits'][name]})" if row.get("waits") else ""
    return f"{row['microseconds'][name]}{between}{reads}"


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
