"""What a case is: one function of the series, called as the engine calls it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from firstword.bench.gpu_check.cutting import Cutter

Sizes = Mapping[str, int]
# Gives all that a call returns or leaves behind: tensors, numbers, lists and dictionaries of them.
Call = Callable[[], Any]


class NotHere(Exception):  # noqa: N818 - an outcome, not a program error
    """A case that this device is not for."""


@dataclass(frozen=True)
class Case:
    """`prepare` cuts from one side's files and returns the call that is measured.

    Weights and inputs come from fixed seeds, so both sides have the same. Whatever a call changes it makes anew.

    Attributes:
        what: The function, and what it does, for the report.
        patches: Of the series, whose effect this is.
        stands_in: What the function calls and was not cut, for the report.
        published: Sizes of the real models, for a GPU.
        rehearsal: Small ones, for the CPU and for counting; None where the release has none.
    """

    name: str
    what: str
    patches: tuple[str, ...]
    published: Sizes
    rehearsal: Sizes | None
    prepare: Callable[[Cutter, torch.device, Sizes], Call]
    stands_in: str = "nothing"


def noise(*shape: int, seed: int, device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normal numbers that hang on the seed alone, on every device the same."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return made.to(dtype).to(device)


def floats(device: torch.device) -> torch.dtype:
    """Return the type of the models' weights: bfloat16 on a GPU; on the CPU float32, which its kernels all take."""
    return torch.bfloat16 if on_gpu(device) else torch.float32


def module(build: Callable[[], torch.nn.Module], device: torch.device, dtype: torch.dtype) -> torch.nn.Module:
    """Return a module with weights that hang on a seed alone."""
    torch.manual_seed(0)
    with torch.device(device if on_gpu(device) else "cpu"):
        made = build()
    return made.to(device, dtype).eval().requires_grad_(False)


def on_gpu(device: torch.device) -> bool:
    """Whether this is a GPU, and not the counter's device that says so."""
    return bool(device.type == "cuda" and torch.cuda.is_available())


class Quiet:
    """Stands in for a logger."""

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Output:
    """Stands in for classes that only hold what they are given."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)
