"""What a workload is, and a run of one: counted, and plain for comparison."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from firstword.bench.syncs.counting import Counts

# Names the part of a workload that is counted.
Phase = Callable[[str], AbstractContextManager[None]]
Run = Callable[[Path, torch.device, Phase], Any]


@dataclass(frozen=True)
class Workload:
    """`run` makes its model on a device, uses it, and returns all that came out."""

    name: str
    model: str  # of the synthetic checkpoints
    run: Run


def plain(workload: Workload, checkpoint: Path) -> Any:
    """Return what a workload gives on the CPU."""
    torch.manual_seed(0)
    return workload.run(checkpoint, torch.device("cpu"), lambda _: contextlib.nullcontext())


def counted(workload: Workload, checkpoint: Path) -> tuple[Any, Counts]:
    """Return what a workload gives with held tensors, and what was counted."""
    from firstword.bench.syncs import claims, held

    torch.manual_seed(0)
    with claims.counting(Counts()) as counts:
        result = workload.run(checkpoint, held.CLAIMED, counts.phase)
    return held.release(result), counts


def same(one: Any, other: Any) -> bool:
    """Whether two results have the same tensors, bit for bit."""
    left, right = tree_leaves(one), tree_leaves(other)
    return len(left) == len(right) > 0 and all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(left, right, strict=True)
    )
