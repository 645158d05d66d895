"""hift.pt: from a mel spectrogram to sound, by the published vocoder at its published size.

HiFTGenerator shapes a source of harmonics, whose pitch it predicts, and leaves the network as the
magnitudes and phases of a short inverse Fourier transform. The weights here keep three numbers alive
between mel spectrogram and transform:

- *pitch*: one random direction in the spectrogram, smoothed, around `PITCH`;
- *loudness*: another one, added to the logarithm of the magnitudes;
- the *source* itself: the transform's lowest bin has the magnitude ``exp(loudness + source)``, the next
  one ``exp(loudness - source)``, with all phases 0. After windowing, a steady bin 0 and a steady bin 1
  cancel: what remains is ``exp(loudness) * 2 sinh(source)``, the source at that loudness, without an
  offset.

All else is switched off. A weight-normalised convolution is switched off by its gain, because its
direction must not be zero; a residual block whose second convolutions are off passes its input on.
Leaky relus do the same as long as what passes is positive, which `_LIFT` sees to.
"""

from pathlib import Path

import numpy as np

from firstword.synthetic.step_audio_2 import weights
from firstword.synthetic.step_audio_2.weights import Floats

PITCH = 165.0  # Hz
_PITCH_RANGE = 30.0  # Hz for one unit of the direction's value
_LOUDNESS = 0.625
_LOUDNESS_RANGE = 0.6
_SOURCE = 0.26
_SILENT = -8.0  # log magnitude of the bins that are off

_LIFT = 8.0
_HARMONICS = 9
_BINS = 9  # of a transform of length 16

_LOUD, _VOICE = 0, 1  # channels
_G, _V = ".parametrizations.weight.original0", ".parametrizations.weight.original1"


def write(folder: Path, rng: np.random.Generator) -> None:
    """Write hift.pt into ``folder``."""
    import torch
    from flashcosyvoice.modules.hifigan import HiFTGenerator

    with torch.device("meta"):
        expected = weights.shapes(HiFTGenerator())
    given: dict[str, Floats | float] = {name: 1.0 if name.endswith((_V, "alpha")) else 0.0 for name in expected}
    given |= _source() | _pitch(rng, expected) | _loudness(rng, expected) | _transform(expected)
    weights.save(folder / "hift.pt", expected, given, prefix="generator.")


def _source() -> dict[str, Floats | float]:
    """Mix the harmonics, each weaker than the one below, and hand their sum to the last stage."""
    mix = (np.arange(1, _HARMONICS + 1, dtype=np.float32) ** -0.5)[None]
    # The source's own transform: its lowest bin is about 8 times the source.
    voice = np.zeros((64, 2 * _BINS, 1), np.float32)
    voice[_VOICE, 0, 0] = _SOURCE
    lift = np.zeros(64, np.float32)
    lift[_VOICE] = _LIFT
    return {"m_source.l_linear.weight": mix, "source_downs.2.weight": voice, "source_downs.2.bias": lift}


def _pitch(rng: np.random.Generator, expected: dict[str, tuple[int, ...]]) -> dict[str, Floats | float]:
    given: dict[str, Floats | float] = {}
    first, *rest = (f"f0_predictor.condnet.{index}" for index in range(0, 10, 2))
    shape = expected[first + _V]
    smooth = np.full(shape[2], 1 / shape[2], np.float32)
    given |= _convolution(first, shape, {0: _direction(rng, shape[1])[:, None] * smooth})
    given[first + ".bias"] = _only(shape[0], _LIFT)
    # The others pass it on. They see one frame only: past the ends there is no lift, and the pitch would fall.
    shape = expected[rest[0] + _V]
    kernel = np.zeros(shape[1:], np.float32)
    kernel[0, shape[2] // 2] = 1.0
    same = _convolution("", shape, {0: kernel})  # the same arrays for all four, to be stored once
    for name in rest:
        given |= {name + part: value for part, value in same.items()}
    classifier = np.zeros(expected["f0_predictor.classifier.weight"], np.float32)
    classifier[0, 0] = _PITCH_RANGE
    given["f0_predictor.classifier.weight"] = classifier
    given["f0_predictor.classifier.bias"] = np.array([PITCH - _PITCH_RANGE * _LIFT], np.float32)
    return given


def _loudness(rng: np.random.Generator, expected: dict[str, tuple[int, ...]]) -> dict[str, Floats | float]:
    shape = expected["conv_pre" + _V]
    taps = np.full(shape[2], 1 / shape[2], np.float32)
    given = _convolution("conv_pre", shape, {_LOUD: _LOUDNESS_RANGE * _direction(rng, shape[1])[:, None] * taps})
    given["conv_pre.bias"] = _only(shape[0], _LIFT)
    # Upsampling: first between neighbouring frames in a straight line, then by repeating.
    for stage, (rate, taps_wide) in enumerate(((8, 16), (5, 5), (3, 3))):
        name = f"ups.{stage}"
        shape = expected[name + _V]
        kernel = np.zeros(shape[1:], np.float32)
        rising = np.minimum(1.0, (np.arange(taps_wide) + 0.5) / rate) if stage == 0 else np.ones(taps_wide)
        line = np.minimum(rising, rising[::-1])
        start = (shape[2] - taps_wide) // 2
        kernel[_LOUD, start : start + taps_wide] = line
        given |= _convolution(name, shape, {_LOUD: kernel})
    return given


def _transform(expected: dict[str, tuple[int, ...]]) -> dict[str, Floats | float]:
    shape = expected["conv_post" + _V]
    center = shape[2] // 2
    rows = {}
    for row, sign in ((0, 1.0), (1, -1.0)):
        rows[row] = np.zeros(shape[1:], np.float32)
        rows[row][_LOUD, center], rows[row][_VOICE, center] = 1.0, sign
    bias = np.zeros(shape[0], np.float32)
    bias[:_BINS] = _SILENT
    bias[0], bias[1] = _LOUDNESS - 2 * _LIFT, _LOUDNESS
    return _convolution("conv_post", shape, rows) | {"conv_post.bias": bias}


def _convolution(name: str, shape: tuple[int, ...], rows: dict[int, Floats]) -> dict[str, Floats | float]:
    """Return gain and direction of a weight-normalised convolution that is off but for some rows."""
    return {name + _V: _direction_of(shape, rows), name + _G: _gain(rows, shape)}


def _direction_of(shape: tuple[int, ...], rows: dict[int, Floats]) -> Floats:
    direction = np.ones(shape, np.float32)
    for row, kernel in rows.items():
        direction[row] = kernel
    return direction


def _gain(rows: dict[int, Floats], shape: tuple[int, ...]) -> Floats:
    gain = np.zeros((shape[0], 1, 1), np.float32)
    for row, kernel in rows.items():
        gain[row] = np.sqrt((kernel * kernel).sum())
    return gain


def _direction(rng: np.random.Generator, size: int) -> Floats:
    direction = rng.standard_normal(size)
    unit: Floats = (direction / np.sqrt((direction * direction).sum())).astype(np.float32)
    return unit


def _only(size: int, value: float) -> Floats:
    bias = np.zeros(size, np.float32)
    bias[0] = value
    return bias
