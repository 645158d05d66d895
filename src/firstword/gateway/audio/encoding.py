"""Turn an engine's samples into the format asked for, while they come.

Everything here computes and never waits, so it belongs into a thread (`firstword.gateway.threads`).
"""

from typing import Protocol

import av
import numpy as np

from firstword.gateway.audio import wav
from firstword.gateway.audio.formats import RATE, SAMPLE_BYTES, Format
from firstword.gateway.audio.tempo import Tempo


class Encoder(Protocol):
    """Takes whole samples, returns bytes of the format."""

    def feed(self, samples: bytes) -> bytes:
        """Take samples; return what is ready."""

    def finish(self) -> bytes:
        """Return the rest."""


class Pcm:
    """The samples as they are."""

    def feed(self, samples: bytes) -> bytes:
        """Return them."""
        return samples

    def finish(self) -> bytes:
        """Return nothing."""
        return b""


class StreamedWav:
    """A WAV whose header leaves the length open."""

    def __init__(self) -> None:
        self._header = wav.header()

    def feed(self, samples: bytes) -> bytes:
        """Return the header, once, and the samples."""
        head, self._header = self._header, b""
        return head + samples

    def finish(self) -> bytes:
        """Return the header if nothing came before it."""
        return self.feed(b"")


class WholeWav:
    """A WAV with an exact header, which stands first: all of it comes at the end."""

    def __init__(self) -> None:
        self._samples = bytearray()

    def feed(self, samples: bytes) -> bytes:
        """Keep them."""
        self._samples += samples
        return b""

    def finish(self) -> bytes:
        """Return the file."""
        return wav.header(len(self._samples)) + bytes(self._samples)


class Coded:
    """One of FFmpeg's encoders and muxers, writing to a sink without a way back."""

    def __init__(self, fmt: Format) -> None:
        self._sink = _Sink()
        # bitexact: equal samples make equal bytes; without it, Ogg draws a number for each stream.
        options = {**fmt.options, "flush_packets": "1", "fflags": "+bitexact"}
        self._file = av.open(self._sink, "w", format=fmt.container, options=options)
        stream = self._file.add_stream(fmt.codec, rate=RATE)
        assert isinstance(stream, av.AudioStream)
        self._stream = stream
        self._stream.layout = "mono"
        if fmt.bit_rate:
            self._stream.bit_rate = fmt.bit_rate
        self._fed = 0

    def feed(self, samples: bytes) -> bytes:
        """Take samples; return what is ready."""
        if samples:
            frame = av.AudioFrame.from_ndarray(np.frombuffer(samples, "<i2")[None, :], format="s16", layout="mono")
            frame.sample_rate = RATE
            frame.pts = self._fed
            self._fed += frame.samples
            self._file.mux(self._stream.encode(frame))
        return self._sink.take()

    def finish(self) -> bytes:
        """Return the rest, the container's end included."""
        self._file.mux(self._stream.encode(None))
        self._file.close()
        return self._sink.take()


class _Sink:
    """What a muxer writes to: it can write, and nothing else."""

    def __init__(self) -> None:
        self._held = bytearray()

    def write(self, data: bytes) -> int:
        self._held += data
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self._held)
        self._held.clear()
        return taken


class Transcoder:
    """From an engine's samples to bytes of the answer, with a change of tempo between.

    Args:
        fmt: The format to make.
        speed: 1.0 leaves the samples as they are.
        whole: Whether a WAV is to have an exact header, and so comes in one piece at the end.

    Attributes:
        samples: How many have come out, that is, are in the answer.
    """

    def __init__(self, fmt: Format, *, speed: float = 1.0, whole: bool = False) -> None:
        self._tempo = None if speed == 1.0 else Tempo(speed)
        self._encoder: Encoder
        if fmt.container:
            self._encoder = Coded(fmt)
        elif fmt.name == "wav":
            self._encoder = WholeWav() if whole else StreamedWav()
        else:
            self._encoder = Pcm()
        self._half = b""
        self.samples = 0

    def feed(self, data: bytes) -> bytes:
        """Take bytes of samples, cut anywhere; return what is ready, perhaps nothing."""
        data = self._half + data
        whole = len(data) - len(data) % SAMPLE_BYTES
        self._half, data = data[whole:], data[:whole]
        return self._encoder.feed(self._counted(self._tempo.feed(data) if self._tempo else data))

    def finish(self) -> bytes:
        """Return the rest.

        Raises:
            ValueError: The bytes ended inside a sample.
        """
        if self._half:
            raise ValueError("the samples end inside a sample")
        rest = self._encoder.feed(self._counted(self._tempo.finish())) if self._tempo else b""
        return rest + self._encoder.finish()

    def _counted(self, samples: bytes) -> bytes:
        self.samples += len(samples) // SAMPLE_BYTES
        return samples
