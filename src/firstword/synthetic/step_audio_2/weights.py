"""Small things that the weight files of ``token2wav`` share."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float32]


def linear(rng: np.random.Generator, *shape: int, gain: float = 1.0) -> Floats:
    """Return a random weight ``[out, in, ...]`` that keeps the deviation of its input, times ``gain``.

    From numpy, whose stream does not depend on the machine's vector instructions as torch's does.
    """
    deviation = gain / np.prod(shape[1:]) ** 0.5
    return (rng.standard_normal(shape) * deviation).astype(np.float32)


def shapes(module: Any) -> dict[str, tuple[int, ...]]:
    """Return the shape of every entry of a module's state dict."""
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}


def save(path: Path, expected: Mapping[str, tuple[int, ...]], given: Mapping[str, Floats | float], prefix: str) -> None:
    """Write a PyTorch state dict in float16; the classes that load it work in float32.

    A number stands for a tensor that holds it everywhere. Such tensors are views of one element, and
    equal arrays are one storage: ``torch.save`` writes a storage once, so the file stays small although
    every tensor has the published name and the shape of the published class.

    Args:
        path: Where to.
        expected: The shape of each tensor, by name, in the order to write.
        given: Its values, or the one value of all its elements.
        prefix: Goes before each name.
    """
    import torch

    unknown = given.keys() ^ expected.keys()
    if unknown:
        raise ValueError(f"these tensors differ from the class's: {sorted(unknown)}")
    storages: dict[int | float, torch.Tensor] = {}
    tensors = {}
    for name, shape in expected.items():
        value = given[name]
        key = id(value) if isinstance(value, np.ndarray) else float(value)
        if key not in storages:
            storages[key] = torch.from_numpy(np.array(value, np.float16))
        tensors[prefix + name] = storages[key].expand(shape)
    # Into a path that is not ASCII torch writes another way, with other bytes. So it is given one that always is.
    with _ascii_name(path) as name:
        torch.save(tensors, name)


@contextmanager
def _ascii_name(path: Path) -> Iterator[str]:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
