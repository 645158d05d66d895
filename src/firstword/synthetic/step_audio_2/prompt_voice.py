"""assets/default_female.wav: the voice that token2wav imitates.

vLLM-Omni looks here before it takes its own recording of nine seconds. One second is enough, and spares
each first request the time for the rest.
"""

import wave
from pathlib import Path

import numpy as np

RATE = 24000
SECONDS = 1.0
_PITCH = 210.0  # Hz
_FORMANTS = ((850.0, 1.0), (1220.0, 0.6), (2810.0, 0.2))  # Hz and height: an open "a"


def write(path: Path) -> None:
    """Write a sung vowel, 16 bit mono at `RATE`."""
    time = np.arange(round(SECONDS * RATE)) / RATE
    phase = 2 * np.pi * _PITCH * (time + 0.001 * np.sin(2 * np.pi * 5 * time))
    sound = np.zeros_like(time)
    for harmonic in range(1, int(4000 / _PITCH)):
        height = sum(level * np.exp(-(((harmonic * _PITCH - hertz) / 150) ** 2)) for hertz, level in _FORMANTS)
        sound += (height + 0.05) * np.sin(harmonic * phase)
    sound *= 0.7 + 0.3 * np.sin(2 * np.pi * 3 * time)
    samples = (sound / np.abs(sound).max() * 0.5 * 32767).round().astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
