"""Cut a recording into pieces that a model hears at once, at its silences."""

from dataclasses import dataclass

import numpy as np

from firstword.gateway.audio import wav
from firstword.gateway.audio.decoding import RATE, Decoder, UnreadableError

# Step-Audio-2 hears up to 30 s at once, and its own code cuts every 25 s.
MOST_SECONDS = 25.0
LEAST_SECONDS = 0.1
# Where a cut is looked for: the last third of a piece.
_FROM = 16.0
# A cut stands in the middle of the quietest stretch of this length.
_STRETCH = 0.3
_FRAME = RATE // 50
_SILENT = 10 ** (-60 / 20)


@dataclass(frozen=True)
class Piece:
    """A part of a recording.

    Attributes:
        start: Where it begins, in seconds.
        end: Where it ends.
        samples: 16 kHz mono, int16, as bytes.
        silent: Whether nothing in it is louder than -60 dBFS.
    """

    start: float
    end: float
    samples: bytes
    silent: bool

    def as_wav(self) -> bytes:
        """Return it as a file."""
        return wav.header(len(self.samples), RATE) + self.samples


class Cutter:
    """Gives the pieces of one recording in their order, decoding no further than the next needs.

    Args:
        decoder: The recording.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._held: list[np.ndarray[tuple[int], np.dtype[np.int16]]] = []
        self._have = self._given = 0
        self._ended = False

    @property
    def seconds(self) -> float:
        """How much of the recording has been given."""
        return self._given / RATE

    def next(self) -> Piece | None:
        """Return the next piece, or None after the last.

        Raises:
            UnreadableError: The recording cannot be decoded further, or is shorter than 0.1 s as a whole.
        """
        most = round(MOST_SECONDS * RATE)
        while not self._ended and self._have <= most:
            samples = self._decoder.read()
            if samples is None:
                self._ended = True
            else:
                self._held.append(samples)
                self._have += len(samples)
        if self._ended and self._given + self._have < LEAST_SECONDS * RATE:
            raise UnreadableError(
                "audio_too_short", f"it lasts {(self._given + self._have) / RATE:.3f} s; the least is {LEAST_SECONDS} s"
            )
        if not self._have:
            return None
        samples = np.concatenate(self._held)
        cut = len(samples) if len(samples) < most else _quietest(samples[:most])
        self._held, self._have = [samples[cut:]], len(samples) - cut
        start, self._given = self._given, self._given + cut
        return _piece(samples[:cut], start)

    def close(self) -> None:
        """Let go of the recording."""
        self._decoder.close()


def _piece(samples: "np.ndarray[tuple[int], np.dtype[np.int16]]", start: int) -> Piece:
    silent = float(_levels(samples).max(initial=0.0)) < _SILENT
    # The engine refuses less than 20 ms, which a last piece may have.
    missing = round(LEAST_SECONDS * RATE) - len(samples)
    whole = np.pad(samples, (0, missing)) if missing > 0 else samples
    return Piece(start / RATE, (start + len(samples)) / RATE, whole.astype("<i2").tobytes(), silent)


def _quietest(samples: "np.ndarray[tuple[int], np.dtype[np.int16]]") -> int:
    """Return the sample at which to cut: the middle of the quietest stretch of the last third."""
    first = round(_FROM * RATE) // _FRAME
    levels = _levels(samples)[first:] ** 2
    width = max(1, round(_STRETCH * RATE) // _FRAME)
    means = np.convolve(levels, np.ones(width) / width, "valid")
    # Of equally quiet ones, as in digital silence, the last: pieces as long as may be.
    best = len(means) - 1 - int(np.argmin(means[::-1]))
    return (first + best + width // 2) * _FRAME


def _levels(samples: "np.ndarray[tuple[int], np.dtype[np.int16]]") -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the root mean square of each 20 ms, full scale 1.0; the last may be shorter."""
    count = -(-len(samples) // _FRAME)
    padded = np.zeros(count * _FRAME)
    padded[: len(samples)] = samples / 32768.0
    return np.sqrt((padded.reshape(count, _FRAME) ** 2).mean(axis=1))
