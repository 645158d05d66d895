"""Recordings cut, mislabelled, too short, of odd rates and channel counts."""

import numpy as np

from firstword.acceptance.recording import vowels
from sounds import encode, to_wav, to_wav_float

RATE = 16000
GOOD = vowels(1.2, pitch=110)


def _tone(seconds, rate):
    return 0.2 * np.sin(2 * np.pi * 220 * np.arange(round(seconds * rate)) / rate)


def recordings():
    """Return name -> bytes."""
    tone = _tone(0.5, RATE)
    broken = bytearray(GOOD)
    broken[16:24] = b"\xff" * 8
    found = {
        "good": GOOD,
        "nothing": b"",
        "a header alone": GOOD[:44],
        "cut in the header": GOOD[:21],
        "cut in the middle": GOOD[: len(GOOD) // 2 + 1],
        "a broken header": bytes(broken),
        "one sample": to_wav(tone[:1], RATE),
        "zeros": to_wav(np.zeros(RATE), RATE),
        "full scale": to_wav(np.sign(tone), RATE),
        "not a number": to_wav_float(np.where(np.arange(len(tone)) == 99, np.nan, tone), RATE),
        "beyond all sound": to_wav_float(np.where(np.arange(len(tone)) == 99, 3e38, tone), RATE),
        "text": b"hello, this is no sound at all\n" * 20,
        "a picture": b"\x89PNG\r\n\x1a\n" + bytes(200),
        "random bytes": bytes(np.random.default_rng(0).integers(0, 256, 4000, dtype=np.uint8)),
        "flac": encode(tone, "flac", rate=RATE),
        "opus": encode(_tone(0.5, 48000), "opus", rate=48000),
        "a cut flac": encode(tone, "flac", rate=RATE)[:300],
        "31 s": to_wav(_tone(31, 8000), 8000),
    }
    for rate in (100, 8000, 22050, 192000, 768000):
        found[f"{rate} Hz"] = to_wav(_tone(0.3, rate), rate)
    for channels in (2, 5, 8):
        found[f"{channels} channels"] = to_wav(tone, RATE, channels)
    return found
