"""Which container a body is, what it declares, and whether it is whole. Standard library only.

Decoders hide what matters here: they fill in a cut end, trust a header, or resample (Opus always
decodes to 48 kHz). So the headers are read directly.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from firstword import documents

STREAMED_SIZE = 0xFFFFFFFF
_MPEG_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_MPEG1_KBPS = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MPEG2_KBPS = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_ADTS_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)


@dataclass(frozen=True)
class Container:
    """What a body says about itself.

    Attributes:
        name: ``wav``, ``mp3``, ``opus``, ``aac``, ``flac``, another container's name, ``json``,
            ``text``, ``empty`` or ``unknown``.
        codec: The coding of the samples, such as ``pcm_s16le``; empty when not known.
        rate: Sample rate in Hz as the producer gave it (for Opus: of its input); 0 when not known.
        channels: Number of channels; 0 when not known.
        declared_seconds: Length that the container declares, or None.
        cut: Why the container is not whole, or an empty string.
        streamed: Whether a WAV header leaves its length open (``0xFFFFFFFF``).
        data: Start and end of the samples in a WAV body, in bytes.
    """

    name: str
    codec: str = ""
    rate: int = 0
    channels: int = 0
    declared_seconds: float | None = None
    cut: str = ""
    streamed: bool = False
    data: tuple[int, int] = (0, 0)

    @property
    def is_audio(self) -> bool:
        """Whether the body can be audio at all (raw PCM is ``unknown``)."""
        return self.name not in ("json", "text", "empty")


def identify(body: bytes) -> Container:
    """Return what ``body`` is, by its own bytes and nothing else."""
    if not body:
        return Container("empty")
    for offset, magic, parse in _MAGIC:
        if body[offset : offset + len(magic)] == magic:
            return parse(body)
    return _text(body) or _mp3(body) or _adts(body) or Container("unknown")


def _text(body: bytes) -> Container | None:
    head = body[:4096]
    if b"\x00" in head:
        return None
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character may be split at the end of the head.
        if error.start < len(head) - 3:
            return None
        text = head[: error.start].decode("utf-8")
    if not all(character.isprintable() or character in "\r\n\t" for character in text):
        return None
    try:
        documents.parse_json(body)
    except ValueError:
        return Container("text")
    return Container("json")


def _wav(body: bytes) -> Container:
    if body[:4] != b"RIFF":
        return Container("unknown")
    position, fields = 12, None
    while position + 8 <= len(body):
        kind, size = struct.unpack_from("<4sI", body, position)
        start = position + 8
        if kind == b"fmt " and start + 16 <= len(body):
            fields = struct.unpack_from("<HHIIHH", body, start)
            if fields[0] == 0xFFFE and size >= 26:  # extensible: the real coding is in the sub-format
                fields = (struct.unpack_from("<H", body, start + 24)[0], *fields[1:])
        elif kind == b"data":
            if fields is None:
                return Container("wav", cut="no fmt chunk before the data")
            return _wav_data(fields, start, size, len(body))
        position = start + size + (size & 1)
    return Container("wav", cut="no data chunk")


def _wav_data(fields: tuple[int, ...], start: int, size: int, total: int) -> Container:
    streamed = size == STREAMED_SIZE
    tag, channels, rate, _, align, bits = fields
    codec = {(1, 8): "pcm_u8", (1, 16): "pcm_s16le", (1, 24): "pcm_s24le", (1, 32): "pcm_s32le", (3, 32): "pcm_f32le"}
    present = total - start
    end = total if streamed else min(total, start + size)
    cut = ""
    if not streamed and present < size:
        cut = f"declares {size} bytes of samples, holds {present}"
    elif not streamed and size == 0 and present > 0:
        cut = f"declares no samples, holds {present} bytes"
    elif align and (end - start) % align:
        cut = f"ends inside a sample ({(end - start) % align} of {align} bytes)"
    declared = None if streamed or not (align and rate) else size / align / rate
    name = codec.get((tag, bits), f"wav tag {tag}, {bits} bits")
    return Container("wav", name, rate, channels, declared, cut, streamed, (start, end))


def _flac(body: bytes) -> Container:
    if len(body) < 42 or body[4] & 0x7F:
        return Container("flac", "flac", cut="no STREAMINFO")
    packed = int.from_bytes(body[18:26], "big")
    rate, channels, samples = packed >> 44, (packed >> 41 & 7) + 1, packed & (1 << 36) - 1
    declared = samples / rate if samples and rate else None
    return Container("flac", "flac", rate, channels, declared)


def _ogg(body: bytes) -> Container:
    position, granule, ended, cut = 0, 0, False, ""
    while position < len(body):
        table = position + 27
        if body[position : position + 4] != b"OggS" or table > len(body):
            cut = "ends inside a page header"
            break
        segments = body[table : table + body[position + 26]]
        page_end = table + len(segments) + sum(segments)
        if len(segments) < body[position + 26] or page_end > len(body):
            cut = "ends inside a page"
            break
        ended = bool(body[position + 5] & 4)
        (at,) = struct.unpack_from("<q", body, position + 6)
        granule = max(granule, at)
        position = page_end
    if not cut and not ended:
        cut = "no page is marked as the last"
    head = body.find(b"OpusHead", 0, 128)
    if head < 0:
        return Container("ogg", cut=cut)
    if head + 19 > len(body):
        return Container("opus", "opus", cut=cut or "no OpusHead")
    channels, skip, rate = struct.unpack_from("<BHI", body, head + 9)
    declared = None if cut else max(0, granule - skip) / 48000
    return Container("opus", "opus", rate, channels, declared, cut)


@dataclass(frozen=True)
class _Frame:
    length: int
    rate: int
    channels: int
    samples: int
    info_offset: int = 0


def _mpeg_frame(header: bytes) -> _Frame | None:
    """Return the MPEG layer III frame that ``header`` (4 bytes) starts, or None."""
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE6 != 0xE2:
        return None
    version, bitrate, rate = header[1] >> 3 & 3, header[2] >> 4, header[2] >> 2 & 3
    if version == 1 or bitrate in (0, 15) or rate == 3:
        return None
    first = version == 3
    kbps = (_MPEG1_KBPS if first else _MPEG2_KBPS)[bitrate]
    hertz = _MPEG_RATES[version][rate]
    mono = header[3] >> 6 == 3
    length = (144 if first else 72) * kbps * 1000 // hertz + (header[2] >> 1 & 1)
    side = (17 if mono else 32) if first else (9 if mono else 17)
    return _Frame(length, hertz, 1 if mono else 2, 1152 if first else 576, 4 + side)


def _adts_frame(header: bytes) -> _Frame | None:
    """Return the ADTS frame that ``header`` (7 bytes) starts, or None."""
    if len(header) < 7 or header[0] != 0xFF or header[1] & 0xF6 != 0xF0:
        return None
    rate = header[2] >> 2 & 15
    length = (header[3] & 3) << 11 | header[4] << 3 | header[5] >> 5
    if rate >= len(_ADTS_RATES) or length < 7:
        return None
    return _Frame(length, _ADTS_RATES[rate], (header[2] & 1) << 2 | header[3] >> 6, 1024)


def _mp3(body: bytes) -> Container | None:
    start = 0
    if body[:3] == b"ID3" and len(body) >= 10:
        start = 10 + (body[6] << 21 | body[7] << 14 | body[8] << 7 | body[9])
        if _mpeg_frame(body[start : start + 4]) is None:
            return Container("mp3", "mp3", cut="no frame after the ID3 tag")
    end = len(body) - 128 if body[-128:-125] == b"TAG" else len(body)
    first = _mpeg_frame(body[start : start + 4])
    if first is None or (start == 0 and not _follows(body, first.length, _mpeg_frame, 4)):
        return None
    declared = None
    info = start + first.info_offset  # where LAME and FFmpeg leave the number of frames
    if body[info : info + 4] in (b"Info", b"Xing") and body[info + 7] & 1:
        declared = int.from_bytes(body[info + 8 : info + 12], "big")
    frames, position, cut = 0, start, ""
    while position < end:
        frame = _mpeg_frame(body[position : position + 4])
        if frame is None:
            cut = "ends inside a frame" if end - position < 4 else "damaged between two frames"
            break
        position += frame.length
        if position > end:
            cut = "ends inside a frame"
            break
        frames += 1
    if declared is not None:
        frames -= 1  # the frame that declares is not audio
        if not cut and frames < declared:
            cut = f"declares {declared} frames, holds {frames}"
    seconds = None if declared is None else declared * first.samples / first.rate
    return Container("mp3", "mp3", first.rate, first.channels, seconds, cut)


def _adts(body: bytes) -> Container | None:
    first = _adts_frame(body[:7])
    if first is None or not _follows(body, first.length, _adts_frame, 7):
        return None
    position, cut = 0, ""
    while position < len(body):
        frame = _adts_frame(body[position : position + 7])
        if frame is None:
            cut = "ends inside a frame" if len(body) - position < 7 else "damaged between two frames"
            break
        position += frame.length
        if position > len(body):
            cut = "ends inside a frame"
            break
    return Container("aac", "aac", first.rate, first.channels, None, cut)


def _follows(body: bytes, at: int, parse: Callable[[bytes], _Frame | None], size: int) -> bool:
    """Whether another frame starts ``at``: one sync pattern alone is common in raw PCM."""
    return at >= len(body) or parse(body[at : at + size]) is not None


_MAGIC: tuple[tuple[int, bytes, Callable[[bytes], Container]], ...] = (
    (8, b"WAVE", _wav),
    (0, b"fLaC", _flac),
    (0, b"OggS", _ogg),
    (4, b"ftyp", lambda _: Container("mp4")),
    (0, b"\x1aE\xdf\xa3", lambda _: Container("matroska")),
)
