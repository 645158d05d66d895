"""Level, silence, clipping and DC of decoded samples. Needs numpy."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SILENCE_DBFS = -200.0  # what digital silence is called, so that JSON can hold it


@dataclass(frozen=True)
class Levels:
    """What the samples measure; full scale is 1.0.

    Attributes:
        not_finite: Number of samples that are NaN or infinite; nothing else is measured then.
        peak: Largest absolute value.
        dc: Mean.
        active_share: Share of blocks that are not silent.
        longest_silence: Longest run of silent blocks, in seconds.
        active_dbfs: Level of those blocks without their mean (root mean square), in dB of full scale.
        clipped_share: Share of samples at full scale.
        doubled: Whether each sample stands twice in a row, as when two equal channels are read as one.
    """

    not_finite: int
    peak: float = 0.0
    dc: float = 0.0
    active_share: float = 0.0
    longest_silence: float = 0.0
    active_dbfs: float = SILENCE_DBFS
    clipped_share: float = 0.0
    doubled: bool = False


def measure(
    samples: NDArray[np.float32], rate: int, block_seconds: float, silent_dbfs: float, clipped_at: float
) -> Levels:
    """Measure mono ``samples`` (float32 ``[n]``) at ``rate`` Hz, in blocks of ``block_seconds``."""
    not_finite = int(np.count_nonzero(~np.isfinite(samples)))
    if not_finite:
        return Levels(not_finite)
    if not len(samples):
        return Levels(0)
    dc = float(samples.mean(dtype=np.float64))
    block = max(1, round(rate * block_seconds))
    # A constant is as silent as zeros, so the mean is taken out before the level is measured.
    centred = samples.astype(np.float64) - dc
    padded = np.pad(centred, (0, -len(centred) % block)).reshape(-1, block)
    power = (padded**2).mean(axis=1)
    active = power > 10 ** (silent_dbfs / 10)
    level = float(power[active].mean()) if active.any() else 0.0
    even = samples[: len(samples) // 2 * 2]
    return Levels(
        not_finite=0,
        peak=float(np.abs(samples).max()),
        dc=dc,
        active_share=float(active.mean()),
        longest_silence=_longest_run(~active) * block / rate,
        active_dbfs=10 * math.log10(max(level, 10 ** (SILENCE_DBFS / 10))),
        clipped_share=float((np.abs(samples) >= clipped_at).mean()),
        doubled=bool(active.any() and np.array_equal(even[0::2], even[1::2])),
    )


def _longest_run(flags: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return int((edges[1::2] - edges[0::2]).max(initial=0))
