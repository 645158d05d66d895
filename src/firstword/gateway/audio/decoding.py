"""Decode a recording within limits: any container of sound, as mono samples, a little at a time.

Nothing is decoded before it is asked for, so a small file that would decode to hours costs what is read of it.
Everything here computes, so it belongs into a thread.
"""

import io
from collections.abc import Iterator

import av
import numpy as np

# What Step-Audio-2 hears.
RATE = 16000
# What Step-Audio-2's patched engine takes too.
LEAST_RATE, MOST_RATE, MOST_CHANNELS = 8000, 192_000, 8
# Formats of sound and film alone: FFmpeg also has some, such as playlists, that make it open what a file names.
_CONTAINERS = (
    "wav,w64,aiff,au,caf,flac,mp3,aac,ac3,eac3,ogg,matroska,webm,mov,mp4,m4a,3gp,mpeg,mpegts,avi,asf,flv,amr,wv,tta"
)
_OPTIONS = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "none"}


class UnreadableError(Exception):
    """A recording that cannot be heard; the message says why.

    Args:
        code: A stable word for it.
        message: One sentence.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Decoder:
    """Reads one recording from its beginning to its end.

    Args:
        data: The file.
        most_seconds: Beyond which it is refused: at once where the file says so, else when it is reached.
        rate: Samples a second of what is read.

    Raises:
        UnreadableError: It holds no sound that can be decoded, or too much.
    """

    def __init__(self, data: bytes, most_seconds: float, rate: int = RATE) -> None:
        self._rate, self._most = rate, round(most_seconds * rate)
        self._read = 0
        self._bad = self._good = 0
        if not data:
            raise UnreadableError("empty_file", "the file is empty")
        try:
            self._file = av.open(io.BytesIO(data), options=_OPTIONS)
        except (av.error.FFmpegError, ValueError) as error:
            raise UnreadableError(
                "invalid_audio", f"the file is no recording that can be read ({_told(error)})"
            ) from error
        try:
            self._samples = self._decode(self._stream())
        except BaseException:
            self._file.close()
            raise

    @property
    def seconds(self) -> float:
        """How much has been read."""
        return self._read / self._rate

    def read(self) -> "np.ndarray[tuple[int], np.dtype[np.int16]] | None":
        """Return the next samples, int16 ``[n]``, or None at the end.

        Raises:
            UnreadableError: It is too long, or cannot be decoded any further.
        """
        samples = next(self._samples, None)
        if samples is None:
            self._file.close()
            return None
        self._read += len(samples)
        if self._read > self._most:
            self._file.close()
            raise self._too_long()
        return samples

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _stream(self) -> "av.AudioStream":
        streams = self._file.streams.audio
        if not streams:
            raise UnreadableError("no_audio", "the file holds no sound")
        stream = streams[0]
        rate, channels = stream.codec_context.sample_rate, stream.codec_context.channels
        if not LEAST_RATE <= rate <= MOST_RATE:
            raise UnreadableError("invalid_audio", f"its rate is {rate} Hz; from {LEAST_RATE} to {MOST_RATE} are taken")
        if not 1 <= channels <= MOST_CHANNELS:
            raise UnreadableError("invalid_audio", f"it has {channels} channels; from 1 to {MOST_CHANNELS} are taken")
        declared = 0.0
        if stream.duration and stream.time_base:
            declared = float(stream.duration * stream.time_base)
        elif self._file.duration:
            declared = self._file.duration / 1e6
        # Where a file declares nothing FFmpeg guesses, by the first frames, and may be far off.
        if declared > 2 * self._most / self._rate:
            raise self._too_long()
        return stream

    def _decode(self, stream: "av.AudioStream") -> "Iterator[np.ndarray[tuple[int], np.dtype[np.int16]]]":
        resampler = av.AudioResampler(format="s16", layout="mono", rate=self._rate)
        try:
            for packet in self._file.demux(stream):
                try:
                    frames = packet.decode()
                    self._good += bool(frames)
                except av.error.InvalidDataError:
                    # A damaged packet, or a tag between two: players go on too.
                    self._bad += 1
                    continue
                for frame in frames:
                    for part in resampler.resample(frame):
                        yield part.to_ndarray()[0]
            if self._good:
                for part in resampler.resample(None):
                    yield part.to_ndarray()[0]
        except (av.error.FFmpegError, ValueError) as error:
            where = f"after {self.seconds:.1f} s" if self._read else "at all"
            raise UnreadableError("invalid_audio", f"it cannot be decoded {where} ({_told(error)})") from error
        if self._bad > self._good:
            raise UnreadableError("invalid_audio", "most of it is damaged")

    def _too_long(self) -> UnreadableError:
        return UnreadableError(
            "audio_too_long", f"it lasts longer than {self._most / self._rate:g} s, which is the limit"
        )


def _told(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).splitlines()[0][:100]
