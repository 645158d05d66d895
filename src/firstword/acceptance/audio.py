"""Decode a body into samples and facts. numpy is imported on use, PyAV only for coded formats."""

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from firstword.acceptance.containers import Container, identify

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WAV_SCALES = {"pcm_s16le": ("<i2", 2**15), "pcm_s32le": ("<i4", 2**31), "pcm_f32le": ("<f4", 1)}


class UndecodableError(Exception):
    """A body that no decoder accepts; the message says what the decoder said."""


@dataclass(frozen=True)
class Sound:
    """Decoded audio.

    Attributes:
        samples: Mono samples, float32 ``[n]``, full scale 1.0; several channels are averaged.
        rate: Rate of ``samples`` in Hz. For Opus 48000, whatever its input was.
        container: What the body declares.
        trouble: What the decoder said where it stopped early, or an empty string.
    """

    samples: "NDArray[np.float32]"
    rate: int
    container: Container
    trouble: str = ""

    @property
    def seconds(self) -> float:
        """Duration of the decoded samples."""
        return len(self.samples) / self.rate if self.rate else 0.0


def decode(body: bytes, *, raw: bool = False, rate: int = 24000, channels: int = 1) -> Sound:
    """Decode ``body``.

    Args:
        body: The whole answer.
        raw: Whether it is headerless signed 16-bit little-endian PCM.
        rate: Rate of raw PCM in Hz; ignored for anything with a header.
        channels: Channels of raw PCM; ignored for anything with a header.

    Raises:
        UndecodableError: Nothing can be decoded from it.
    """
    import numpy as np

    if raw:
        whole = body[: len(body) // (2 * channels) * 2 * channels]
        cut = "" if len(whole) == len(body) else f"ends inside a sample ({len(body) - len(whole)} bytes over)"
        container = Container("pcm", "pcm_s16le", rate, channels, None, cut)
        return Sound(_mono(np.frombuffer(whole, "<i2") / np.float32(2**15), channels), rate, container)
    container = identify(body)
    if container.name == "wav" and not (container.rate and container.channels):
        raise UndecodableError(f"its header says {container.channels} channels at {container.rate} Hz")
    if container.name == "wav" and container.codec in _WAV_SCALES:
        kind, scale = _WAV_SCALES[container.codec]
        start, end = container.data
        step = np.dtype(kind).itemsize * container.channels
        values = np.frombuffer(body[start : start + (end - start) // step * step], kind)
        return Sound(
            _mono(values.astype(np.float32) / np.float32(scale), container.channels), container.rate, container
        )
    return _decode_coded(body, container)


def _decode_coded(body: bytes, container: Container) -> Sound:
    import av
    import numpy as np

    blocks: list[Any] = []
    rate, trouble = 0, ""
    try:
        with av.open(BytesIO(body)) as source:
            if source.streams.audio[0].codec_context is None:  # PyAV would not raise but end the process
                raise UndecodableError(f"no decoder for {container.codec or container.name}")
            planar = av.AudioResampler(format="fltp")
            for frame in source.decode(audio=0):
                rate = frame.sample_rate
                blocks += [part.to_ndarray().mean(axis=0) for part in planar.resample(frame)]
    except (av.error.FFmpegError, IndexError, ValueError) as error:
        trouble = f"{error}".splitlines()[0]
        if not blocks:
            raise UndecodableError(trouble) from error
    if not blocks or rate < 1:
        raise UndecodableError("no audio frame in it")
    return Sound(np.concatenate(blocks).astype(np.float32), rate, container, trouble)


def _mono(values: "NDArray[np.float32]", channels: int) -> "NDArray[np.float32]":
    import numpy as np

    if channels > 1:
        values = values.reshape(-1, channels).mean(axis=1)
    return values.astype(np.float32, copy=False)
