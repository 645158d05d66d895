"""Faster and slower speech at the same pitch, as the samples come."""

from fractions import Fraction

import av
import av.filter
import numpy as np

from firstword.gateway.audio.formats import RATE

SLOWEST, FASTEST = 0.25, 4.0


class Tempo:
    """Changes the tempo of 24 kHz mono 16-bit samples.

    Args:
        speed: From 0.25 (four times as long) to 4.0.
    """

    def __init__(self, speed: float) -> None:
        self._graph = av.filter.Graph()
        self._fed = 0
        source = self._graph.add_abuffer(format="s16", sample_rate=RATE, layout="mono", time_base=Fraction(1, RATE))
        last = source
        for step in steps(speed):
            tempo = self._graph.add("atempo", f"{step:.9f}")
            last.link_to(tempo)
            last = tempo
        shape = self._graph.add("aformat", "sample_fmts=s16:channel_layouts=mono")
        sink = self._graph.add("abuffersink")
        last.link_to(shape)
        shape.link_to(sink)
        self._graph.configure()

    def feed(self, samples: bytes) -> bytes:
        """Take samples; return those that are ready."""
        if samples:
            frame = av.AudioFrame.from_ndarray(np.frombuffer(samples, "<i2")[None, :], format="s16", layout="mono")
            frame.sample_rate = RATE
            frame.pts = self._fed
            frame.time_base = Fraction(1, RATE)
            self._fed += frame.samples
            self._graph.push(frame)
        return self._ready()

    def finish(self) -> bytes:
        """Return the rest."""
        self._graph.push(None)
        return self._ready()

    def _ready(self) -> bytes:
        parts: list[bytes] = []
        while True:
            try:
                frame = self._graph.pull()
            except (BlockingIOError, EOFError):
                return b"".join(parts)
            parts.append(frame.to_ndarray().astype("<i2").tobytes())


def steps(speed: float) -> list[float]:
    """Return factors between 0.5 and 2 with ``speed`` as their product.

    Beyond 2 one ``atempo`` leaves samples out instead of blending them (FFmpeg's filter documentation).
    """
    count = 1 if 0.5 <= speed <= 2 else 2
    return [speed ** (1 / count)] * count
