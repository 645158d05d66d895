"""Compare the release with the patched file: results, times, waits of the host."""

import statistics
import time
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from firstword.bench.gpu_check.case import Call, Case, Sizes
from firstword.bench.gpu_check.cutting import Cutter
from firstword.bench.gpu_check.sources import SIDES, Sources
from firstword.bench.syncs.counting import KINDS, Counts

_QUEUED = 2_000_000  # cycles of the GPU's clock that are queued before a call: 1 to 2 ms


def measure(case: Case, sources: Sources, device: torch.device, sizes: Sizes, *, runs: int, seconds: float) -> Any:
    """Return results' equality, medians of the times, and on a GPU what CUDA reports.

    Args:
        case: What is called.
        sources: The files.
        device: The CPU, or a GPU.
        sizes: Of the case.
        runs: Calls of each side.
        seconds: The most that these calls may take together; at least three are made.
    """
    cutters, calls, held = _prepare(case, sources, device, sizes)
    with torch.inference_mode():
        results = {side: call() for side, call in calls.items()}
        again = calls[SIDES[0]]()
        found = {
            "sizes": dict(sizes),
            "cut_from": sorted(set().union(*(cutter.cut_from for cutter in cutters.values()))),
            "stood_in": sorted(set().union(*(cutter.stood_in for cutter in cutters.values()))),
            "equal": same(*results.values()),
            "difference": difference(*results.values()),
            # Where the release differs from itself, a difference says nothing of a patch.
            "release_repeats_itself": same(results[SIDES[0]], again),
            **times(calls, device, runs=runs, seconds=seconds),
        }
        if device.type == "cuda":
            found["cuda_reports"] = {side: _told(reported(call)) for side, call in calls.items()}
            found["held_mb"] = held
            found["peak_mb"] = {side: _peak(call) for side, call in calls.items()}
    return found


def count(case: Case, sources: Sources, sizes: Sizes) -> Any:
    """Return how often each side makes the host wait, counted without a GPU, and whether that changes a result."""
    from firstword.bench.syncs import claims, held

    found: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for side, call in _prepare(case, sources, torch.device("cpu"), sizes)[1].items():
        with torch.inference_mode():
            plain[side] = call()
    for side in SIDES:
        with torch.inference_mode(), claims.counting(Counts()) as counts:
            call = case.prepare(Cutter(sources, side), held.CLAIMED, sizes)
            with counts.phase(side):
                result = call()
        found[side] = _told(counts, side)
        found[side]["equal to plain CPU"] = same(held.release(result), plain[side])
    return found


def _prepare(
    case: Case, sources: Sources, device: torch.device, sizes: Sizes
) -> tuple[dict[str, Cutter], dict[str, Call], dict[str, float]]:
    """Return by side the cutter, the call, and on a GPU the MB of memory that its weights and inputs hold."""
    cutters = {side: Cutter(sources, side) for side in SIDES}
    calls, held = {}, {}
    for side, cutter in cutters.items():
        before = _allocated(device)
        calls[side] = case.prepare(cutter, device, sizes)
        held[side] = round((_allocated(device) - before) / 1e6, 1)
    return cutters, calls, held


def _allocated(device: torch.device) -> int:
    return int(torch.cuda.memory_allocated()) if device.type == "cuda" else 0


def same(one: Any, other: Any) -> bool:
    """Whether two results are of one shape and type, and equal bit for bit; a result without anything is not."""
    left, right = tree_flatten(one), tree_flatten(other)
    return (
        len(left[0]) > 0 and left[1] == right[1] and all(_equal(a, b) for a, b in zip(left[0], right[0], strict=True))
    )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return bool(one.dtype == other.dtype and torch.equal(one.cpu(), other.cpu()))
    return bool(type(one) is type(other) and one == other)


def difference(one: Any, other: Any) -> float | None:
    """Return the largest difference between two results' numbers; None where they cannot be compared."""
    left, right = tree_flatten(one), tree_flatten(other)
    if left[1] != right[1]:
        return None
    largest = 0.0
    for a, b in zip(left[0], right[0], strict=True):
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            continue
        if a.shape != b.shape:
            return None
        if a.numel():
            largest = max(largest, float((a.cpu().double() - b.cpu().double()).abs().max()))
    return largest


def times(calls: dict[str, Call], device: torch.device, *, runs: int, seconds: float) -> dict[str, Any]:
    """Return medians in microseconds by side; the sides take turns, and which is first changes.

    `host`: until the call returns. `done`: until the device has done all, too. On a GPU besides `events`: between two
    CUDA events, and `queued`: until the call returns where the device had other work to do first. A call that waits
    for the device waits for that work.
    """
    clock = _on_gpu if device.type == "cuda" else _on_cpu
    taken: dict[str, dict[str, list[float]]] = {}
    until = time.monotonic() + seconds
    made = 0
    for run in range(-min(2, runs), runs):  # two to warm up
        for side in SIDES if run % 2 else reversed(SIDES):
            for name, value in clock(calls[side]).items():
                if run >= 0:
                    taken.setdefault(name, {side: [] for side in SIDES})[side].append(value)
        made = run + 1
        if made >= 3 and time.monotonic() > until:
            break
    medians = {
        name: {side: round(statistics.median(values) * 1e6, 1) for side, values in sides.items()}
        for name, sides in taken.items()
    }
    return {"calls": made, "microseconds": medians}


def _on_cpu(call: Call) -> dict[str, float]:
    began = time.perf_counter()
    call()
    took = time.perf_counter() - began
    return {"host": took, "done": took}


def _on_gpu(call: Call) -> dict[str, float]:
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    began = time.perf_counter()
    first.record()
    call()
    last.record()
    host = time.perf_counter() - began
    torch.cuda.synchronize()
    done = time.perf_counter() - began
    torch.cuda._sleep(_QUEUED)
    began = time.perf_counter()
    call()
    queued = time.perf_counter() - began
    torch.cuda.synchronize()
    return {"host": host, "done": done, "events": first.elapsed_time(last) / 1e3, "queued": queued}


def _peak(call: Call) -> float:
    """Return the most memory that a call takes beside what was taken before it, in MB."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return round(int(torch.cuda.max_memory_allocated() - before) / 1e6, 1)


def reported(call: Call) -> Counts:
    """Return what CUDA reports of one call."""
    from firstword.bench.syncs.cuda import watching

    counts = Counts()
    with watching(counts, "call"):
        call()
    return counts


def _told(counts: Counts, phase: str = "call") -> dict[str, Any]:
    events = counts.events[phase]
    listed: list[dict[str, Any]] = [{"times": n, **vars(event)} for event, n in sorted(events.items())]
    return {"totals": {kind: counts.total(phase, kind) for kind in KINDS}, "events": listed}
