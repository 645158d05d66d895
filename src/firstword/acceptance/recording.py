"""A short recording made on the spot, for requests that need one. Standard library only.

Not speech, but a voice: a falling pitch through the resonances of three vowels, with pauses, as a
speaker encoder and a recogniser expect their input to be shaped. Give ``--audio`` for a real one.
"""

import array
import io
import math
import random
import wave

RATE = 24000
# First three formants of "ah", "ee", "oh" in Hz, each with its bandwidth.
_VOWELS = (
    ((730, 90), (1090, 110), (2440, 170)),
    ((270, 60), (2290, 120), (3010, 180)),
    ((570, 80), (840, 100), (2410, 170)),
)


def vowels(seconds: float = 2.4, *, pitch: float = 130.0, seed: int = 0) -> bytes:
    """Return a WAV (mono, 16 bit, `RATE` Hz) of ``seconds`` of made vowels.

    Args:
        seconds: Its duration.
        pitch: Fundamental frequency at the start, in Hz; it falls by a fifth.
        seed: Of the breath noise.
    """
    noise = random.Random(seed)  # noqa: S311
    total = round(seconds * RATE)
    span = total // len(_VOWELS)
    samples: list[float] = []
    for formants in _VOWELS:
        samples += _vowel(formants, span, pitch * (1 - 0.2 * len(samples) / total), noise)
    samples += [0.0] * (total - len(samples))
    top = max(map(abs, samples)) or 1.0
    values = array.array("h", (round(value / top * 16000) for value in samples))
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(values.tobytes())
    return out.getvalue()


def _vowel(formants: tuple[tuple[int, int], ...], count: int, pitch: float, noise: random.Random) -> list[float]:
    period = RATE / pitch
    since = 0.0
    source = []
    for _ in range(count):
        since += 1
        glottis = 0.0
        if since >= period:
            since -= period
            glottis = 1.0
        source.append(glottis + noise.gauss(0, 0.01))
    for frequency, bandwidth in formants:
        source = _resonate(source, frequency, bandwidth)
    edge = count // 8
    return [value * min(1.0, i / edge, (count - i) / edge) for i, value in enumerate(source)]


def _resonate(source: list[float], frequency: float, bandwidth: float) -> list[float]:
    radius = math.exp(-math.pi * bandwidth / RATE)
    first, second = 2 * radius * math.cos(2 * math.pi * frequency / RATE), -radius * radius
    gain = 1 - first - second
    before, before_that = 0.0, 0.0
    out = []
    for value in source:
        before, before_that = gain * value + first * before + second * before_that, before
        out.append(before)
    return out
