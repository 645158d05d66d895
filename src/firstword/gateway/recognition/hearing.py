"""Recognise a recording piece by piece: some at a time, told in their order."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from firstword.gateway import events
from firstword.gateway.asking import Asker, BrokeOff
from firstword.gateway.audio.cutting import Cutter, Piece
from firstword.gateway.audio.decoding import Decoder, UnreadableError
from firstword.gateway.errors import ProblemError
from firstword.gateway.threads import Threads
from firstword.gateway.tokens import without_control_tokens

_PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Heard:
    """A piece and its text, which comes in parts.

    Attributes:
        piece: What was heard.
        parts: The text as it comes; it ends when all of it has come.
    """

    piece: Piece
    parts: MemoryObjectReceiveStream[str]
    _into: MemoryObjectSendStream[str] = field(repr=False)


@dataclass
class Usage:
    """Tokens, as OpenAI counts them."""

    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, told: Any) -> None:
        """Add what an event of a chat tells."""
        if isinstance(told, dict):
            self.input_tokens += _count(told.get("prompt_tokens"))
            self.output_tokens += _count(told.get("completion_tokens"))

    def told(self) -> dict[str, Any]:
        """Return OpenAI's object."""
        total = self.input_tokens + self.output_tokens
        return {
            "type": "tokens",
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "total_tokens": total,
        }


@dataclass
class Listening:
    """One recording that is being recognised.

    Attributes:
        threads: Where it is decoded.
        asker: Asks the engine.
        body: Makes the request for a piece.
        at_a_time: Pieces that the engine gets at a time.
        seconds: How long the recording is, as far as it has been decoded.
        usage: Tokens that the engine took and made, all pieces together.
    """

    threads: Threads
    asker: Asker
    body: Callable[[Piece], dict[str, Any]]
    at_a_time: int
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)

    @asynccontextmanager
    async def to(self, recording: bytes, most_seconds: float) -> AsyncIterator[AsyncIterator[Heard]]:
        """Give the pieces of a recording in their order, each while it is being recognised.

        Raises:
            ProblemError: The recording cannot be heard, or an engine refuses a piece.
            BrokeOff: An engine broke off.
        """
        cutter = await self._decoded(lambda: Cutter(Decoder(recording, most_seconds)))
        into, out = anyio.create_memory_object_stream[Heard](math.inf)
        try:
            async with anyio.create_task_group() as group:

                async def give() -> None:
                    async with into:
                        places = anyio.Semaphore(self.at_a_time)
                        while (piece := await self._decoded(cutter.next)) is not None:
                            self.seconds = piece.end
                            text_into, text_out = anyio.create_memory_object_stream[str](math.inf)
                            heard = Heard(piece, text_out, text_into)
                            await places.acquire()
                            group.start_soon(self._recognise, heard, places)
                            await into.send(heard)

                group.start_soon(give)
                async with out:
                    yield out
                group.cancel_scope.cancel()
        except BaseExceptionGroup as group_error:
            raise _first(group_error) from group_error
        finally:
            cutter.close()

    async def _recognise(self, heard: Heard, places: anyio.Semaphore) -> None:
        try:
            async with heard._into:
                if not heard.piece.silent:
                    await self._ask(heard)
        finally:
            places.release()

    async def _ask(self, heard: Heard) -> None:
        reason, held = None, ""
        async with self.asker.post(_PATH, self.body(heard.piece)) as response:
            ended = False
            async for event in events.read(response):
                if event == events.DONE:
                    ended = True
                    break
                if not event.get("choices"):
                    self.usage.add(event.get("usage"))
                for text, why in events.deltas(event):
                    reason = why or reason
                    told, held = without_control_tokens(held + text)
                    if told:
                        await heard._into.send(told)
            if not ended:
                raise BrokeOff("its stream ended without [DONE]")
        if held:
            await heard._into.send(held)
        if reason not in ("stop", None):
            raise ProblemError(
                502,
                f"The transcript of the part from {heard.piece.start:.1f} s found no end ({reason})",
                code="transcript_without_end",
            )

    async def _decoded[T](self, work: Callable[[], T]) -> T:
        try:
            return await self.threads.decode(work)
        except UnreadableError as error:
            raise ProblemError(400, f"file: {error}", code=error.code, param="file") from error


def _count(told: Any) -> int:
    return told if isinstance(told, int) and told > 0 else 0


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error that tells what happened; whatever else was raised followed from it."""
    for error in group.exceptions:
        found = _first(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, ProblemError | BrokeOff):
            return found
    return group.exceptions[0]
