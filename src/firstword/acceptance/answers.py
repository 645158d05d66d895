"""What the client returns. Standard library only."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Chunk:
    """Bytes of audio and when they arrived, in seconds since the request was sent."""

    at: float
    data: bytes


@dataclass(frozen=True)
class Speech:
    """A spoken answer.

    Attributes:
        body: The audio, as it came.
        content_type: Its ``Content-Type``, or None where it came inside JSON or events.
        seconds: From sending the request to the last byte.
        chunks: The pieces in which it was streamed; one for a plain answer.
        usage: The server's token counts, or an empty dict.
    """

    body: bytes
    content_type: str | None
    seconds: float
    chunks: tuple[Chunk, ...] = ()
    usage: dict[str, Any] = field(default_factory=dict)

    @property
    def first_audio(self) -> float:
        """Time to first audio in seconds."""
        return self.chunks[0].at if self.chunks else self.seconds


@dataclass(frozen=True)
class Reply:
    """A chat answer: text, audio or both.

    Attributes:
        text: The text of the choice that has one, or None.
        finish_reason: Why that choice, or else the audio, ended.
        audio: The audio of the choice that has one, or None.
        usage: The server's token counts, or an empty dict.
        seconds: From sending the request to the last byte.
        deltas: Number of text deltas of a streamed answer; 0 for a plain one.
    """

    text: str | None
    finish_reason: str | None
    audio: Speech | None
    usage: dict[str, Any]
    seconds: float
    deltas: int = 0
