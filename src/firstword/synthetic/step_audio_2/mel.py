"""The spectrogram that Step-Audio-2 listens to: 128 mel bands, 100 frames a second. numpy only."""

import numpy as np
from numpy.typing import NDArray

RATE = 16000
BANDS = 128
WINDOW = 400
HOP = 160


def log_mel(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the spectrogram ``[BANDS, frames]`` of mono ``samples`` ``[n]`` at `RATE`, as the model scales it."""
    frames = np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::HOP]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    log = np.log10(np.maximum(_filters() @ power.T, 1e-10))
    return (np.maximum(log, log.max() - 8) + 4) / 4


def _filters() -> NDArray[np.float64]:
    """Triangles of equal area over Slaney's mel scale, ``[BANDS, WINDOW // 2 + 1]``."""
    edges = _hertz(np.linspace(0, _slaney_mel(RATE / 2), BANDS + 2))[:, None]
    bins = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    triangles: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling)) * 2 / (edges[2:] - edges[:-2])
    return triangles


_LINEAR, _KNEE, _OCTAVE = 200 / 3, 1000.0, np.log(6.4) / 27  # Hz a mel below the knee; log Hz a mel above


def _slaney_mel(hertz: float) -> float:
    return float(_KNEE / _LINEAR + np.log(hertz / _KNEE) / _OCTAVE)


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    knee = _KNEE / _LINEAR
    return np.where(mels < knee, mels * _LINEAR, _KNEE * np.exp(_OCTAVE * (mels - knee)))
