"""What vLLM-Omni's clients say on a WebSocket (``serving_speech_stream.py``), read and checked."""

from collections.abc import Mapping
from typing import Any

from firstword.gateway import bodies, errors
from firstword.gateway.errors import ProblemError
from firstword.gateway.speech import request as speech_request
from firstword.gateway.speech.request import SpeechRequest

# A text comes in words and sentences; only a configuration carries sound.
MOST_TEXT_BYTES = 128 * 1024
_ELSEWHERE = ("input", "stream", "stream_format")


def read(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a client's message.

    Args:
        message: ASGI's ``websocket.receive``.

    Raises:
        ProblemError: It is no JSON object with a type, or too long for its type.
    """
    text = message.get("text")
    if text is None:
        raise ProblemError(400, "Messages are JSON texts; sound goes only the other way", code="invalid_message")
    fields = bodies.parse(text.encode(), "message")
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise ProblemError(400, "type: a string is expected", code="invalid_message", param="type")
    if kind != "session.config" and len(text) > MOST_TEXT_BYTES:
        raise ProblemError(
            400, f"A message of this type may have {MOST_TEXT_BYTES} bytes", code="string_above_max_length"
        )
    return fields


def configured(fields: dict[str, Any]) -> SpeechRequest:
    """Return the request for speech that a ``session.config`` describes, its text still to come.

    Raises:
        ProblemError: A field is unknown or wrong; it is named.
    """
    told = {name: value for name, value in fields.items() if name != "type" and value is not None}
    unknown = [name for name in _ELSEWHERE if name in told]
    if unknown:
        raise errors.unknown_fields(unknown)
    streamed = told.pop("stream_audio", False)
    if not isinstance(streamed, bool):
        raise ProblemError(400, "stream_audio: true or false is expected", code="invalid_value", param="stream_audio")
    if told.pop("word_timestamps", False):
        message = "word_timestamps: the models tell no times of words"
        raise ProblemError(400, message, code="unsupported_parameter", param="word_timestamps")
    if "speaker" in told:
        told.setdefault("voice", told.pop("speaker"))
    told.setdefault("response_format", "wav")
    return speech_request.parse({**told, "input": "", "stream_format": "audio" if streamed else None}, 0)
