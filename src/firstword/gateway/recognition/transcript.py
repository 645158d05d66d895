"""A transcript in each of OpenAI's shapes."""

import html
import math
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi.responses import JSONResponse

MEDIA_TYPES = {
    "json": "application/json",
    "verbose_json": "application/json",
    "text": "text/plain; charset=utf-8",
    "srt": "text/plain; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
}


@dataclass(frozen=True)
class Segment:
    """The text of one piece; times in seconds."""

    start: float
    end: float
    text: str


def joint(before: str, after: str) -> str:
    """Return what stands between the texts of two pieces: nothing where the script has no spaces."""
    if not before or not after or _no_spaces(before[-1]) or _no_spaces(after[0]):
        return ""
    return " "


def joined(segments: Sequence[Segment]) -> str:
    """Return the whole text."""
    text = ""
    for segment in segments:
        text += joint(text, segment.text) + segment.text
    return text


def shaped(
    segments: Sequence[Segment],
    shape: str,
    *,
    translating: bool,
    language: str,
    seconds: float,
    temperature: float,
    tokens: dict[str, Any] | None,
) -> bytes:
    """Return the answer's body.

    Args:
        segments: In their order, none empty.
        shape: OpenAI's ``response_format``.
        translating: Whether it is a translation.
        language: What verbose_json says it is.
        seconds: Of the recording.
        temperature: That it was made with.
        tokens: What json says was used; None for the seconds, as verbose_json always does.
    """
    text = joined(segments)
    if shape == "text":
        return f"{text}\n".encode()
    if shape == "srt":
        cues = (
            f"{number}\n{_clock(each.start, ',')} --> {_clock(each.end, ',')}\n{_line(each.text)}\n\n"
            for number, each in enumerate(segments, 1)
        )
        return "".join(cues).encode()
    if shape == "vtt":
        cues = (
            f"{_clock(each.start, '.')} --> {_clock(each.end, '.')}\n{html.escape(_line(each.text), quote=False)}\n\n"
            for each in segments
        )
        return ("WEBVTT\n\n" + "".join(cues)).encode()
    document: dict[str, Any] = {"text": text}
    if shape == "verbose_json":
        document = {
            "task": "translate" if translating else "transcribe",
            "language": language,
            "duration": round(seconds, 3),
            "text": text,
            "segments": [_told(number, each, temperature) for number, each in enumerate(segments)],
        }
    if not translating:
        duration = {"type": "duration", "seconds": math.ceil(seconds)}
        document["usage"] = duration if shape == "verbose_json" or tokens is None else tokens
    return bytes(JSONResponse(document).body)


def _told(number: int, segment: Segment, temperature: float) -> dict[str, Any]:
    data = segment.text.encode()
    return {
        "id": number,
        "seek": round(segment.start * 100),
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": segment.text,
        # Not told by the model; a number here would be made up.
        "tokens": [],
        "avg_logprob": None,
        "no_speech_prob": None,
        "temperature": temperature,
        "compression_ratio": round(len(data) / len(zlib.compress(data)), 3),
    }


def _clock(seconds: float, mark: str) -> str:
    minutes, milliseconds = divmod(round(seconds * 1000), 60_000)
    whole = f"{minutes // 60:02}:{minutes % 60:02}:{milliseconds // 1000:02}"
    return f"{whole}{mark}{milliseconds % 1000:03}"


def _line(text: str) -> str:
    """Return a text that no reader of cues takes for the end of one or for times."""
    return " ".join(text.split()).replace("-->", "->")


def _no_spaces(character: str) -> bool:
    return unicodedata.name(character, "").partition(" ")[0] in (
        "CJK",
        "HIRAGANA",
        "KATAKANA",
        "IDEOGRAPHIC",
        "FULLWIDTH",
    )
