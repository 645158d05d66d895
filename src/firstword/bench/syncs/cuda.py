"""Count on a GPU: what CUDA itself reports of each call that waits for the device.

`torch.cuda.set_sync_debug_mode("warn")` warns at the call, on the thread that makes it, so the line is
known. It reports blocking copies in both directions alike, and nothing of asynchronous ones.
"""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

from firstword.bench.syncs.counting import READ, Counts
from firstword.bench.syncs.workload import Workload

_WORDS = "called a synchronizing CUDA operation"


def reported(workload: Workload, checkpoint: Path) -> Counts:
    """Run a workload on the first GPU and return what CUDA reported."""
    counts = Counts()
    torch.manual_seed(0)
    with _listening(counts):
        workload.run(checkpoint, torch.device("cuda", 0), lambda name: _phase(counts, name))
    return counts


@contextlib.contextmanager
def watching(counts: Counts, name: str) -> Iterator[None]:
    """Count what CUDA reports within, under this name."""
    with _listening(counts), _phase(counts, name):
        yield


@contextlib.contextmanager
def _phase(counts: Counts, name: str) -> Iterator[None]:
    torch.cuda.synchronize()
    with counts.phase(name):
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


@contextlib.contextmanager
def _listening(counts: Counts) -> Iterator[None]:
    """Count each report at the line that caused it, however often that line has been reported before."""
    show = warnings.showwarning

    def note(message: Warning | str, *details: object, **named: object) -> None:
        if _WORDS in str(message):
            counts.note(READ, "waits for the device")
        else:
            show(message, *details, **named)  # type: ignore[arg-type]

    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=f".*{_WORDS}.*")
        warnings.showwarning = note
        yield
