"""What a good answer is. A status, a header and a size are not enough: a silent WAV has all three.

`judge_speech` and `judge_transcript` name every way in which an answer fails, not only the first.
"""

import re
import unicodedata
from dataclasses import dataclass, field

from firstword.acceptance.containers import Container, identify
from firstword.acceptance.duration import window

FORMATS = ("wav", "mp3", "opus", "aac", "flac", "pcm")

SILENT_DBFS = -60.0  # a 50 ms block below this is silence
LOW_DBFS = -40.0  # speech from these models lies near -20
LEAST_ACTIVE = 0.4  # share of blocks that are not silent; pauses take up to a third of slow speech
LONGEST_SILENCE = 2.0  # seconds; a longer pause is a part that is missing
CLIPPED_AT = 0.985  # lossy codecs ripple around a clipped top, so not 1.0
MOST_CLIPPED = 0.005
MOST_DC = 0.02
BLOCK_SECONDS = 0.05
# Seconds between declared and decoded length: MP3 declares its encoder's delay and padding too.
LENGTH_TOLERANCE = {"wav": 0.0, "flac": 0.0, "opus": 0.03, "mp3": 0.15}

_TYPES = {
    "wav": {"audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"},
    "mp3": {"audio/mpeg", "audio/mp3"},
    "opus": {"audio/ogg", "audio/opus", "application/ogg"},
    "aac": {"audio/aac", "audio/x-aac", "audio/aacp"},
    "flac": {"audio/flac", "audio/x-flac"},
    "pcm": {"audio/pcm", "audio/l16", "audio/x-pcm", "application/octet-stream"},
}
_SPECIAL = re.compile(r"<\|[^<>|]{1,48}\|>|</?(?:tts|audio|think|tool|im|s|unk|pad)(?:_\w+)?>")


@dataclass(frozen=True)
class Failure:
    """One way in which an answer is not good: a stable name, and what was found."""

    name: str
    detail: str


@dataclass(frozen=True)
class Verdict:
    """The outcome of judging one answer; ``facts`` holds what was measured."""

    failures: tuple[Failure, ...]
    facts: dict[str, str | int | float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with the answer."""
        return not self.failures

    @property
    def names(self) -> tuple[str, ...]:
        """Return the failures' names, in the order in which they were found."""
        return tuple(failure.name for failure in self.failures)

    def __str__(self) -> str:
        if self.ok:
            return "good"
        return "; ".join(f"{failure.name}: {failure.detail}" for failure in self.failures)


def judge_speech(
    body: bytes,
    *,
    fmt: str,
    text: str | None,
    rate: int = 24000,
    channels: int = 1,
    content_type: str | None = None,
    speed: float = 1.0,
    streamed: bool = False,
) -> Verdict:
    """Judge one spoken answer.

    Args:
        body: The whole answer, headers of the container included.
        fmt: The format asked for, one of `FORMATS`; ``pcm`` is signed 16-bit little-endian.
        text: The text that should be heard; None when it is not known.
        rate: The sample rate it should have, in Hz.
        channels: The number of channels it should have.
        content_type: The ``Content-Type`` it came with; None leaves it unchecked.
        speed: The request's speed, which scales the plausible duration.
        streamed: Whether a WAV header may leave its length open.

    Returns:
        The verdict. Failures: ``not-audio``, ``wrong-type``, ``wrong-container``, ``cut-container``,
        ``undecodable``, ``wrong-rate``, ``wrong-channels``, ``too-short``, ``too-long``, ``nan``,
        ``silence``, ``low-level``, ``clipped``, ``dc``.

    Raises:
        ValueError: ``fmt`` is none of `FORMATS`.
    """
    if fmt not in FORMATS:
        raise ValueError(f"unknown format {fmt!r}: one of {', '.join(FORMATS)}")
    found = identify(body)
    failures = [*_judge_identity(found, fmt), *_judge_type(content_type, fmt, rate)]
    if not found.is_audio or any(failure.name == "wrong-container" for failure in failures):
        return Verdict(tuple(failures), {"container": found.name, "bytes": len(body)})

    from firstword.acceptance.audio import UndecodableError, decode
    from firstword.acceptance.levels import measure

    try:
        sound = decode(body, raw=fmt == "pcm", rate=rate, channels=channels)
    except UndecodableError as error:
        cut = [Failure("cut-container", found.cut)] if found.cut else []
        failures += [*cut, Failure("undecodable", str(error))]
        return Verdict(tuple(failures), {"container": found.name, "bytes": len(body)})
    levels = measure(sound.samples, sound.rate, BLOCK_SECONDS, SILENT_DBFS, CLIPPED_AT)
    failures += _judge_whole(sound.container, sound.seconds, sound.trouble, streamed=streamed)
    failures += _judge_shape(sound.container, rate, channels)
    if fmt == "pcm" and channels == 1 and levels.doubled:
        failures.append(Failure("wrong-channels", "every sample stands twice: two channels, not one"))
    bounds = window(text, speed=speed)
    if sound.seconds < bounds.lower:
        failures.append(Failure("too-short", f"{sound.seconds:.2f} s, expected at least {bounds.lower:.2f} s"))
    if sound.seconds > bounds.upper:
        failures.append(Failure("too-long", f"{sound.seconds:.2f} s, expected at most {bounds.upper:.2f} s"))
    if levels.not_finite:
        failures.append(Failure("nan", f"{levels.not_finite} samples are not finite"))
    elif levels.active_share < LEAST_ACTIVE:
        failures.append(Failure("silence", f"only {levels.active_share:.0%} of it is above {SILENT_DBFS:.0f} dBFS"))
    elif levels.longest_silence > LONGEST_SILENCE:
        failures.append(Failure("silence", f"{levels.longest_silence:.2f} s of it in a row are silent"))
    elif levels.active_dbfs < LOW_DBFS:
        failures.append(Failure("low-level", f"{levels.active_dbfs:.1f} dBFS, expected at least {LOW_DBFS:.0f}"))
    if levels.clipped_share > MOST_CLIPPED:
        failures.append(Failure("clipped", f"{levels.clipped_share:.1%} of the samples are at full scale"))
    if abs(levels.dc) > MOST_DC:
        failures.append(Failure("dc", f"mean {levels.dc:+.3f} of full scale"))
    facts: dict[str, str | int | float] = {
        "container": sound.container.name,
        "codec": sound.container.codec,
        "rate": sound.container.rate,
        "channels": sound.container.channels,
        "bytes": len(body),
        "seconds": round(sound.seconds, 3),
        "dbfs": round(levels.active_dbfs, 1),
        "peak": round(levels.peak, 3),
        "active": round(levels.active_share, 3),
    }
    return Verdict(tuple(failures), facts)


def judge_transcript(text: str | None, finish_reason: str | None) -> Verdict:
    """Judge one answer in text.

    Returns:
        The verdict. Failures: ``no-transcript``, ``not-ended`` (by the model itself, that is
        ``finish_reason`` other than ``stop``), ``not-printable``, ``special-token``.
    """
    failures = []
    if not (text and text.strip()):
        failures.append(Failure("no-transcript", "the answer holds no text"))
    if finish_reason != "stop":
        failures.append(Failure("not-ended", f"finish_reason is {finish_reason!r}, not 'stop'"))
    bad = [character for character in text or "" if _unprintable(character)]
    if bad:
        failures.append(Failure("not-printable", f"{len(bad)} characters, the first is U+{ord(bad[0]):04X}"))
    special = _SPECIAL.search(text or "")
    if special:
        failures.append(Failure("special-token", f"{special.group()} is left in the text"))
    return Verdict(tuple(failures), {"characters": len(text or ""), "finish_reason": str(finish_reason)})


def _judge_identity(found: Container, fmt: str) -> list[Failure]:
    if not found.is_audio:
        return [Failure("not-audio", f"the body is {found.name}, not {fmt}")]
    # Raw PCM has no mark of its own, and a frame sync of MP3 or AAC is also a possible sample.
    expected = ("unknown", "mp3", "aac") if fmt == "pcm" else (fmt,)
    if found.name not in expected:
        return [Failure("wrong-container", f"the body is {found.name}, not {fmt}")]
    return []


def _judge_type(content_type: str | None, fmt: str, rate: int) -> list[Failure]:
    if content_type is None:
        return []
    kind, *parameters = (part.strip().lower() for part in content_type.split(";"))
    failures = []
    if kind not in _TYPES[fmt]:
        failures.append(Failure("wrong-type", f"Content-Type is {kind or 'empty'}, the format asked for is {fmt}"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "rate" and value != str(rate):
            failures.append(Failure("wrong-rate", f"Content-Type says {value} Hz, expected {rate}"))
    return failures


def _judge_whole(container: Container, seconds: float, trouble: str, *, streamed: bool) -> list[Failure]:
    declared = container.declared_seconds
    if container.cut:
        return [Failure("cut-container", container.cut)]
    if container.streamed and not streamed:
        return [Failure("cut-container", "the header leaves the length open, as in a stream")]
    if trouble:
        return [Failure("cut-container", f"decoding stopped early: {trouble}")]
    if declared is not None and abs(declared - seconds) > LENGTH_TOLERANCE.get(container.name, 0.15) + 1e-6:
        return [Failure("cut-container", f"declares {declared:.2f} s, holds {seconds:.2f} s")]
    return []


def _judge_shape(container: Container, rate: int, channels: int) -> list[Failure]:
    failures = []
    if container.rate != rate:
        failures.append(Failure("wrong-rate", f"{container.rate} Hz, expected {rate}"))
    if container.channels != channels:
        failures.append(Failure("wrong-channels", f"{container.channels}, expected {channels}"))
    return failures


def _unprintable(character: str) -> bool:
    if character in "\n\t":
        return False
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Co", "Cn", "Cs")
