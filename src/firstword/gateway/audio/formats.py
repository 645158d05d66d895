"""The formats in which speech is given, and how each is made."""

from dataclasses import dataclass, field

# What both models make: 24 kHz, mono, signed 16-bit little-endian.
RATE = 24000
SAMPLE_BYTES = 2


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        name: What requests call it.
        media_type: Its ``Content-Type``.
        container: FFmpeg's muxer, or empty where no encoder is needed.
        codec: FFmpeg's encoder.
        bit_rate: Bits a second; 0 where the codec is lossless.
        options: The muxer's.
    """

    name: str
    media_type: str
    container: str = ""
    codec: str = ""
    bit_rate: int = 0
    options: dict[str, str] = field(default_factory=dict)


_FORMATS = (
    # Frames alone: a tag or a Xing frame would have to be written again at the end, and a stream has no way back.
    Format("mp3", "audio/mpeg", "mp3", "libmp3lame", 96_000, {"write_xing": "0", "id3v2_version": "0"}),
    # FFmpeg's pages last a second, which is a second that every first sound would wait.
    Format("opus", "audio/ogg", "ogg", "libopus", 64_000, {"page_duration": "60000"}),
    Format("aac", "audio/aac", "adts", "aac", 96_000),
    Format("flac", "audio/flac", "flac", "flac"),
    Format("wav", "audio/wav"),
    Format("pcm", "audio/pcm"),
)
FORMATS = {each.name: each for each in _FORMATS}
