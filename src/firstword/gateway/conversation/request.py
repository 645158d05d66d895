"""OpenAI's request for a spoken answer, and what makes Step-Audio-2 give one."""

from dataclasses import dataclass
from typing import Any

from firstword.gateway.audio.formats import FORMATS, Format
from firstword.gateway.errors import ProblemError

# The model speaks after this mark at the beginning of its answer; without it, it writes.
_SPEAK = "<tts_start>"
# OpenAI's name here for what /v1/audio/speech calls pcm.
FORMATS_BY_NAME = {**FORMATS, "pcm16": FORMATS["pcm"]}


@dataclass(frozen=True)
class Spoken:
    """What the client asked for.

    Attributes:
        fmt: The format of the sound.
        streamed: Whether the answer is a stream of events.
    """

    fmt: Format
    streamed: bool


def wants_sound(fields: dict[str, Any]) -> bool:
    """Return whether a chat is to be answered aloud."""
    modalities = fields.get("modalities")
    return isinstance(modalities, list) and "audio" in modalities


def parse(fields: dict[str, Any]) -> Spoken:
    """Return what a body asks for.

    Raises:
        ProblemError: ``audio`` is wrong, or a message refers to sound that is not kept.
    """
    audio = fields.get("audio") or {}
    if not isinstance(audio, dict):
        raise _wrong("audio", "an object with voice and format is expected")
    unknown = sorted(set(audio) - {"voice", "format"})
    if unknown:
        raise _wrong(f"audio.{unknown[0]}", "unknown; there are voice and format")
    name = audio.get("format", "wav")
    fmt = FORMATS_BY_NAME.get(name) if isinstance(name, str) else None
    if fmt is None:
        raise _wrong("audio.format", f"one of {', '.join(sorted(FORMATS_BY_NAME))} is expected")
    for message in _messages(fields):
        if isinstance(message, dict) and message.get("audio") and not message.get("content"):
            raise _wrong("messages", "sound is not kept: send the transcript of an earlier answer as its content")
    return Spoken(fmt, bool(fields.get("stream")))


def for_engine(fields: dict[str, Any], model: str) -> dict[str, Any]:
    """Return the body for the engine: it begins its answer with the mark, and its sound comes as samples."""
    audio = fields.get("audio") or {}
    voice = audio.get("voice")
    if isinstance(voice, dict) and set(voice) == {"id"}:
        voice = voice["id"]
    body = {**fields, "model": model, "modalities": ["text", "audio"]}
    body["audio"] = {"format": "pcm16", **({} if voice is None else {"voice": voice})}
    if not fields.get("continue_final_message"):
        body |= {
            "messages": [*_messages(fields), {"role": "assistant", "content": _SPEAK}],
            "continue_final_message": True,
            "add_generation_prompt": False,
        }
    return body


def _messages(fields: dict[str, Any]) -> list[Any]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _wrong("messages", "a list of messages is expected")
    return messages


def _wrong(name: str, what: str) -> ProblemError:
    return ProblemError(400, f"{name}: {what}", code="invalid_value", param=name)
