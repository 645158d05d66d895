"""One WebSocket: utterances come in as texts and go out as sound, one after the other.

The protocol is vLLM-Omni's. Its engine collects a text until ``input.done`` and asks itself for all of it
at once; so does this, by the same request that ``/v1/audio/speech`` makes, which has every format, a place in
the queue, a deadline, and an end as soon as the client is gone.
"""

import math
import time
from dataclasses import dataclass
from typing import Any

import anyio
from fastapi import WebSocket, WebSocketDisconnect
from starlette.requests import HTTPConnection

from firstword.gateway import logs
from firstword.gateway.answering import Answer, tried
from firstword.gateway.context import Gateway
from firstword.gateway.errors import ProblemError
from firstword.gateway.sessions import messages
from firstword.gateway.sessions.frames import Frames
from firstword.gateway.speech import request as speech_request
from firstword.gateway.speech.request import SpeechRequest
from firstword.gateway.speech.speaking import speak

# RFC 6455: nothing was wrong, the client did what it must not, this side failed, come back later.
NORMAL, POLICY, FAILED, LATER = 1000, 1008, 1011, 1013
# Utterances of one client that may wait; each is bounded in length.
MOST_WAITING = 8
_EXPECTED = "session.config, input.text, input.done or session.close is expected"


@dataclass(frozen=True)
class _Utterance:
    number: int
    asked: SpeechRequest
    text: str
    came: float


class Session:
    """Serves one connection that has been accepted.

    Args:
        socket: The connection.
        gateway: The running gateway.
        counts: Counts utterances as it does requests.
    """

    def __init__(self, socket: WebSocket, gateway: Gateway, counts: logs.Counts) -> None:
        self._socket, self._gateway, self._counts = socket, gateway, counts
        self._facts = logs.facts(socket.scope)
        self._asked: SpeechRequest | None = None
        self._parts: list[str] = []
        self._characters = 0
        self._number = 0
        self._waiting = 0
        self._active = time.monotonic()
        self._ending = self._closed = False
        self._into, self._utterances = anyio.create_memory_object_stream[_Utterance](math.inf)

    async def run(self) -> None:
        """Serve until either side closes; what is being said then is not said further."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._say_all)
                await self._listen()
                group.cancel_scope.cancel()
        except* WebSocketDisconnect:
            # What was being sent had nobody to go to.
            self._facts.outcome = self._facts.outcome or "client_left"

    async def _listen(self) -> None:
        # Always listening: a client that leaves is noticed at once, whatever is being said.
        while True:
            message = await self._next()
            if message is None:
                await self._tell(ProblemError(408, "No message came for too long", code="idle_timeout"))
                await self._close(POLICY, "idle")
                return
            if message["type"] == "websocket.disconnect":
                if not self._closed:
                    self._facts.outcome = "client_left" if self._waiting or self._characters else "complete"
                return
            if self._ending:
                continue
            try:
                self._take(messages.read(message))
            except ProblemError as problem:
                await self._tell(problem)
                if self._asked is None:
                    await self._close(_code(problem), problem.code or "")
                    return

    async def _next(self) -> Any:
        """Return the next message; None when none came in time and nothing is being said."""
        idle = self._gateway.settings.session_idle
        while (left := self._active + idle - time.monotonic()) > 0 or self._waiting:
            with anyio.move_on_after(max(left, idle / 10)):
                message = await self._socket.receive()
                self._active = time.monotonic()
                return message
        return None

    def _take(self, fields: dict[str, Any]) -> None:
        kind = fields["type"]
        if kind == "session.config":
            self._configure(fields)
        elif self._asked is None:
            raise ProblemError(400, f"Expected session.config, got: {kind[:40]}", code="invalid_message", param="type")
        elif kind == "input.text":
            self._collect(fields)
        elif kind == "input.done":
            self._flush(self._asked)
        elif kind == "session.close":
            self._ending = True
            self._into.close()
        else:
            message = f"Unknown message type: {kind[:40]}; {_EXPECTED}"
            raise ProblemError(400, message, code="invalid_message", param="type")

    def _configure(self, fields: dict[str, Any]) -> None:
        if self._characters:
            message = "session.config cannot be applied while input is buffered; send input.done first"
            raise ProblemError(400, message, code="invalid_message", param="type")
        if not fields.get("model") and self._asked is not None:
            fields = {**fields, "model": self._asked.model}
        connection = self._connection(logs.Facts(self._facts.request_id))
        # What is wrong is told now, not after the first text.
        target = self._gateway.target(connection, fields.get("model"), "speech")
        asked = messages.configured(fields)
        speech_request.for_engine(asked, target, self._gateway.router.catalogue)
        self._asked, self._facts.model, self._facts.served = asked, asked.model, target.model

    def _collect(self, fields: dict[str, Any]) -> None:
        text = fields.get("text", "")
        if not isinstance(text, str):
            raise ProblemError(400, "input.text requires a string value", code="invalid_value", param="text")
        most, before = self._gateway.settings.speech_characters, self._characters
        self._characters += len(text)
        if self._characters <= most:
            self._parts.append(text)
            return
        # Nothing of it is said, and it is told once.
        self._parts.clear()
        if before <= most:
            message = f"text: more than {most} characters before input.done, which is the limit"
            raise ProblemError(400, message, code="string_above_max_length", param="text")

    def _flush(self, asked: SpeechRequest) -> None:
        text = "".join(self._parts).strip()
        self._parts.clear()
        self._characters = 0
        if self._waiting >= MOST_WAITING:
            raise ProblemError(429, f"{self._waiting} utterances are waiting to be said", code="rate_limit_exceeded")
        self._waiting += 1
        self._into.send_nowait(_Utterance(self._number, asked, text, time.perf_counter()))
        self._number += 1

    async def _say_all(self) -> None:
        async with self._utterances:
            async for utterance in self._utterances:
                problem = await self._say(utterance) if utterance.text else None
                if problem is not None and problem.status >= 500:
                    await self._close(_code(problem), problem.code or "")
                    return
                done = {"utterance_index": utterance.number, "total_sentences": int(bool(utterance.text))}
                await self._event("session.done", **done)
                self._waiting -= 1
                self._active = time.monotonic()
        await self._close(NORMAL, "")

    async def _say(self, utterance: _Utterance) -> ProblemError | None:
        """Say one; return what kept it from its end, which has been told."""
        facts = logs.Facts(f"{self._facts.request_id}-{utterance.number}", started=utterance.came)
        which = {"utterance_index": utterance.number, "sentence_index": 0}
        fmt = utterance.asked.response_format
        rate = {"sample_rate": 24000} if fmt == "pcm" else {}
        await self._event("audio.start", **which, sentence_text=utterance.text, format=fmt, **rate)
        frames = Frames(self._socket, whole=utterance.asked.whole)
        answer = Answer(frames.send, facts)
        outcome = "client_left"
        try:
            problem = await tried(
                lambda answer: self._produce(utterance, answer), answer, self._gateway.settings.speech_deadline
            )
            outcome = facts.outcome or ("complete" if problem is None else "refused")
        finally:
            where = {"method": "WEBSOCKET", "route": f"{self._route}#utterance"}
            status = 200 if answer.started or outcome == "client_left" else problem.status if problem else 200
            logs.tell(self._counts, facts, where, status=status, outcome=outcome, size=frames.bytes)
        if problem is not None:
            await self._tell(problem)
        await self._event("audio.done", **which, total_bytes=frames.bytes, error=problem is not None)
        return problem

    async def _produce(self, utterance: _Utterance, answer: Answer) -> None:
        connection = self._connection(answer.facts)
        target = self._gateway.target(connection, utterance.asked.model, "speech")
        asked = utterance.asked.model_copy(update={"input": utterance.text})
        body = speech_request.for_engine(asked, target, self._gateway.router.catalogue)
        await speak(self._gateway, self._gateway.asker(connection, target), target, asked, body)(answer)

    @property
    def _route(self) -> str:
        return str(self._socket.scope["route"].path)

    def _connection(self, facts: logs.Facts) -> HTTPConnection:
        return HTTPConnection(logs.scope_of(self._socket.scope, facts))

    async def _tell(self, problem: ProblemError) -> None:
        # vLLM-Omni's clients read the message, OpenAI's the error.
        await self._event("error", message=problem.message, **problem.body())

    async def _event(self, kind: str, **fields: Any) -> None:
        if not self._closed:
            await self._socket.send_json({"type": kind, **fields})

    async def _close(self, code: int, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        if code in (FAILED, LATER):
            self._facts.outcome = "upstream_gone"
        elif code != NORMAL:
            self._facts.outcome = "refused"
        await self._socket.close(code, reason)


def _code(problem: ProblemError) -> int:
    if problem.status >= 500:
        return LATER if problem.status == 503 else FAILED
    return POLICY
