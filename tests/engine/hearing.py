"""Compare sounds sample by sample."""

import numpy as np

from firstword.acceptance.audio import decode


def samples(answer, fmt="pcm"):
    """Return an answer's samples at the answer's own rate, as float64."""
    return decode(answer.body, raw=fmt == "pcm").samples.astype(np.float64)


def snr(reference, other):
    """Return the ratio of ``reference`` to the difference, in dB; infinite when they are equal."""
    assert len(reference) == len(other)
    noise = ((reference - other) ** 2).sum()
    return np.inf if noise == 0 else 10 * np.log10((reference**2).sum() / noise)


def correlation(one, other):
    """Return the correlation of two sounds over their common length."""
    length = min(len(one), len(other))
    return float(np.corrcoef(one[:length], other[:length])[0, 1])
