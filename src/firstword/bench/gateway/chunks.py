"""The sound that the scripted upstream sends: chunks that say when each was sent, so that one clock tells its way.

A chunk is 80 ms of 24 kHz 16-bit mono samples, as Qwen3-TTS makes them. Its first 24 bytes are not sound: a
mark, its number, and two times of the machine's monotonic clock.
"""

import struct
import time
from dataclasses import dataclass

RATE = 24000
PERIOD = 0.08
SIZE = round(RATE * PERIOD) * 2
_HEAD = struct.Struct("<4sIQQ")
_MARK = b"fwb1"


@dataclass(frozen=True)
class Chunk:
    """What one says.

    Attributes:
        number: From 0.
        asked: When its request had come to the upstream, in ns of the monotonic clock.
        sent: When it was sent.
    """

    number: int
    asked: int
    sent: int


def made(number: int, asked: int, sound: bytes) -> bytes:
    """Return a chunk, stamped with the time now."""
    return _HEAD.pack(_MARK, number, asked, time.monotonic_ns()) + sound[_HEAD.size :]


def read(data: bytes | bytearray) -> Chunk:
    """Return what a chunk says.

    Raises:
        ValueError: It is none: the bytes on the way were changed.
    """
    mark, number, asked, sent = _HEAD.unpack_from(data)
    if mark != _MARK:
        raise ValueError("these samples are not those that were sent")
    return Chunk(number, asked, sent)
