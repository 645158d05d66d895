"""Deterministic weights: each tensor is drawn from its own stream, named after it.

A tensor depends on the seed and its name only, so that adding or removing one leaves the others as
they are. The draws use integers of a fixed generator: the same bytes on every machine.
"""

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

type Array = NDArray[np.float32]


class Draws:
    """Draws arrays by name.

    Args:
        seed: Another seed gives other arrays.
        scope: Put before every name, so that two models with equal names differ.
    """

    def __init__(self, seed: int, scope: str = "") -> None:
        self._seed = seed
        self._scope = scope

    def scoped(self, scope: str) -> "Draws":
        """Return draws whose names start with ``scope`` too."""
        return Draws(self._seed, self._scope + scope)

    def signs(self, name: str, shape: tuple[int, ...], scale: float = 1.0, density: float = 1.0) -> Array:
        """Return an array of ``-scale``, ``+scale`` and, for a share of ``1 - density``, zero."""
        bits = self._stream(name).integers(0, 2**16, size=shape, dtype=np.uint32)
        values = np.where(bits & 1, np.float32(scale), np.float32(-scale))
        return np.where((bits >> 1) < density * 2**15, values, np.float32(0)).astype(np.float32)

    def spread(self, name: str, shape: tuple[int, ...], std: float) -> Array:
        """Return an array of a bell-shaped distribution (a sum of four uniform draws) with mean zero."""
        four = self._stream(name).integers(-(2**15), 2**15, size=(4, *shape), dtype=np.int32).sum(axis=0)
        return ((four + 2) * (std * np.sqrt(3) / 2**16)).astype(np.float32)

    def places(self, name: str, rows: int, size: int, count: int) -> NDArray[np.int64]:
        """Return ``count`` different indices below ``size`` for each row, shape ``[rows, count]``."""
        return self._stream(name).integers(0, 2**63, size=(rows, size), dtype=np.int64).argsort(axis=1)[:, :count]

    def _stream(self, name: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self._seed, zlib.crc32((self._scope + name).encode())]))


def save(tensors: dict[str, Array], path: Path, dtype: str) -> None:
    """Write ``tensors`` as safetensors.

    Args:
        tensors: By their names in the file.
        path: The file to write.
        dtype: ``bfloat16`` or ``float32``.
    """
    import torch
    from safetensors.torch import save_file

    kind = getattr(torch, dtype)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(
        {name: torch.from_numpy(np.ascontiguousarray(array)).to(kind) for name, array in tensors.items()},
        path,
        metadata={"format": "pt"},
    )
    path.chmod(0o644)  # safetensors writes for the owner only; an engine may run as another user
