"""RIFF/WAVE headers for 16-bit PCM."""

import struct

from firstword.gateway.audio.formats import RATE, SAMPLE_BYTES

# In both length fields: "until the stream ends", as FFmpeg writes it and readers take it.
OPEN = 0xFFFFFFFF


def header(size: int | None = None, rate: int = RATE) -> bytes:
    """Return the 44 bytes before mono samples.

    Args:
        size: Bytes of samples; None leaves the length open.
        rate: Samples a second.
    """
    length = OPEN if size is None else size
    whole = OPEN if size is None else 36 + size
    body = struct.pack("<HHIIHH", 1, 1, rate, rate * SAMPLE_BYTES, SAMPLE_BYTES, 8 * SAMPLE_BYTES)
    return b"RIFF" + struct.pack("<I", whole) + b"WAVEfmt \x10\0\0\0" + body + b"data" + struct.pack("<I", length)
