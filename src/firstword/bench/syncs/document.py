"""The table and the page of counts."""

from collections.abc import Iterator
from typing import Any

from firstword.bench.syncs.counting import ASYNC, KINDS, READ, WRITE

_HEAD = (
    "| workload | part | blocking reads | blocking writes | asynchronous copies |",
    "|---|---|---|---|---|",
)
_ABOUT = f"""\
Each number is stock → patched; one number where they agree. A *{READ}* is the host asking the device for a
number, a list, an array or the size of a result: it waits until the device has done all that it was given
before. A *{WRITE}* is a copy from pageable memory to the device without `non_blocking`, after which PyTorch
waits too. An *{ASYNC}* does not wait, in either direction.
"""
_HELD = """\
No GPU is needed or used. The installed classes run with tensors that say they are on `cuda:0` and compute with
CPU kernels, so what comes out is that of a plain CPU run, bit for bit, and is compared with it. The data is out
of the host's reach but through operators, each of which is looked at as CUDA would run it: PyTorch's own tags say
which need a value, or a size that depends on data; operators made of others (`torch.istft`, one hidden read) are
taken apart. An operator that cannot be passed ends its workload, and is named.

Not counted: the talker's backbone and the sampler (vLLM's own, unpatched), and what only CUDA's kernel of an
operator might read (one whose CPU kernel reads is named). Nothing is compiled or captured: in a captured graph no read
can stand. A count is not a time: removing one wait often only moves it to the next.
"""
_CUDA = """\
Counted by CUDA itself (`torch.cuda.set_sync_debug_mode`), which tells neither reads from writes nor anything
of asynchronous copies: all waits stand under blocking reads.
"""
_OTHERS = """\
vllm-omni #5067's author counted 17 → 2 device-to-host waits of a whole server for 8 audio requests at once, on a
GPU; above is the one method that it changed.
"""


def faults(side: dict[str, Any]) -> list[str]:
    """Return what makes a side's counts unfit: a workload that failed, an unequal result."""
    found = []
    for name, workload in side["workloads"].items():
        if "error" in workload:
            found.append(f"{name}: {workload['error']}")
        elif workload["equal to plain CPU"] is False:
            found.append(f"{name}: its results are not those of a plain CPU run")
    return found


def table(report: dict[str, Any]) -> list[str]:
    """Return the table's lines."""
    return [*_HEAD, *_rows(report)]


def _rows(report: dict[str, Any]) -> Iterator[str]:
    stock, patched = report["stock"]["workloads"], report["patched"]["workloads"]
    for name, workload in patched.items():
        if "error" in workload or "error" in stock[name]:
            yield f"| {name} | not counted: {workload.get('error') or stock[name].get('error')} | | | |"
            continue
        for part, counts in workload["phases"].items():
            before = stock[name]["phases"].get(part, {"totals": {}})["totals"]
            cells = [_pair(before.get(kind), counts["totals"][kind]) for kind in KINDS]
            yield f"| {name} | {part} | {' | '.join(cells)} |"


def _pair(before: int | None, after: int) -> str:
    return str(after) if before == after else f"{'?' if before is None else before} → **{after}**"


def page(report: dict[str, Any]) -> str:
    """Return the page, as Markdown."""
    about = report["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    how = report["patched"]["how"]
    parts = [
        "# Where the host waits for the device\n",
        f"`firstword bench syncs --json docs/benchmarks/syncs.json --doc docs/benchmarks/syncs.md`, {report['date']}: "
        f"{how}, {about['cores']} cores ({about['processor']}), Python {about['python']}, {versions}. "
        + ("It has not been run on a GPU.\n" if how.startswith("held") else "\n"),
        "\n".join(table(report)) + "\n",
        _ABOUT,
        _HELD if how.startswith("held") else _CUDA,
        _OTHERS,
        "## The lines, patched\n",
        *_lines(report["patched"]["workloads"]),
    ]
    return "\n".join(parts)


def _lines(workloads: dict[str, Any]) -> Iterator[str]:
    for name, workload in workloads.items():
        for part, counts in workload.get("phases", {}).items():
            yield f"{name}, {part}:\n"
            for event in counts["events"]:
                yield f"- {event['times']}: {event['kind']}, {event['what']}, `{event['where']}`"
            yield "" if counts["events"] else "- none\n"
