"""Answer a client while an engine works, and stop the work when the client leaves or the time is over."""

import re
import time
from collections.abc import Awaitable, Callable, Iterable

import anyio
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from firstword.gateway import logs
from firstword.gateway.asking import BrokeOff, broke_off
from firstword.gateway.errors import ProblemError

_WORD = re.compile(r"[a-z_]{1,40}")
_EVENT_END = (b"\n\n", b"\r\n\r\n", b"\r\r")
_OUTCOMES = {
    "upstream_timeout": "upstream_timeout",
    "upstream_broke": "upstream_gone",
    "model_not_ready": "upstream_gone",
    "deadline_exceeded": "deadline",
    "rate_limit_exceeded": "refused",
}


class Answer:
    """What the client has been sent so far."""

    def __init__(self, send: Send, facts: logs.Facts) -> None:
        self._send, self.facts = send, facts
        self.started = self.complete = False
        self._events = False
        self._last = b""

    async def send(self, message: Message) -> None:
        """Send one ASGI message."""
        self.started = True
        self.complete = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    async def start(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send the status 200 and the headers."""
        headers = [(name.lower(), value) for name, value in headers]
        self._events = any(
            name == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers
        )
        await self.send({"type": "http.response.start", "status": 200, "headers": headers})

    async def begin(self, media_type: str) -> None:
        """Send the status 200 and the type of what follows, unless that is done."""
        if not self.started:
            await self.start([(b"content-type", media_type.encode()), (b"cache-control", b"no-store")])

    async def piece(self, data: bytes) -> None:
        """Send some of the body."""
        if data:
            self._last = (self._last + data)[-4:] if len(data) < 4 else data[-4:]
            await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """Send the end."""
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def whole(self, data: bytes, media_type: str) -> None:
        """Send all of the answer at once, with why the model ended."""
        headers = [(b"content-type", media_type.encode()), (b"content-length", str(len(data)).encode())]
        await self.start([*headers, *self.reason()])
        await self.send({"type": "http.response.body", "body": data, "more_body": False})

    def reason(self) -> list[tuple[bytes, bytes]]:
        """Return the header that tells why the model ended, if it is known.

        A stream of bytes has no place for it: its headers are sent before the model ends, and uvicorn sends
        no trailers. There it is counted only.
        """
        reason = self.facts.finish_reason
        return [(b"x-finish-reason", reason.encode())] if reason and _WORD.fullmatch(reason) else []

    def sound(self, seconds: float) -> None:
        """Note that so much sound is ready to be sent, and when the first was."""
        if self.facts.first_audio is None and seconds > 0:
            self.facts.first_audio = time.perf_counter() - self.facts.started
        self.facts.audio_seconds = (self.facts.audio_seconds or 0.0) + seconds

    async def break_off(self, problem: ProblemError) -> None:
        """Leave the answer without its end: the server then closes the connection without a final chunk."""
        # In the midst of an event there is no place for another; the broken connection has to do.
        if self._events and (not self._last or self._last.endswith(_EVENT_END)):
            await self.piece(b"event: error\ndata: " + bytes(problem.response().body) + b"\n\n")


Produce = Callable[[Answer], Awaitable[None]]


class Answering(Response):
    """An answer that is made while it is sent.

    A client that leaves, before or during the answer, cancels ``produce``, and with it what it asked of an
    engine. An answer that breaks off breaks off here too: the connection closes without the final chunk,
    after an error event where the answer is a stream of events.

    Args:
        produce: Makes the answer. May raise `ProblemError` and `BrokeOff` at any time.
        deadline: Seconds it may take.
    """

    def __init__(self, produce: Produce, deadline: float) -> None:
        super().__init__()
        self._produce, self._deadline = produce, deadline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        facts = logs.facts(scope)
        answer = Answer(send, facts)
        async with anyio.create_task_group() as group:

            async def until_answered() -> None:
                await self._answer(scope, receive, answer)
                group.cancel_scope.cancel()

            group.start_soon(until_answered)
            while (await receive())["type"] != "http.disconnect":
                pass
            if not answer.complete:
                facts.outcome = "client_left"
            group.cancel_scope.cancel()

    async def _answer(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        problem = await tried(self._produce, answer, self._deadline)
        if problem is None:
            return
        if answer.started:
            await answer.break_off(problem)
        else:
            await problem.response()(scope, receive, answer.send)


async def tried(produce: Produce, answer: Answer, deadline: float) -> ProblemError | None:
    """Make an answer; return what kept it from its end, noted as its outcome.

    Args:
        produce: Makes it.
        answer: Where it is sent.
        deadline: Seconds it may take.
    """
    try:
        with anyio.fail_after(deadline) as time_left:
            await produce(answer)
        return None
    except ProblemError as error:
        problem = error
    except BrokeOff as error:
        problem = broke_off(str(error))
    except TimeoutError:
        if not time_left.cancelled_caught:
            raise
        problem = ProblemError(504, f"The answer was not ready within {deadline:g} s", code="deadline_exceeded")
    if answer.started:
        code = problem.code or "failed"
        answer.facts.outcome = "upstream_broke" if code in ("upstream_broke", "upstream_timeout") else code
    else:
        answer.facts.outcome = _OUTCOMES.get(problem.code or "")
    return problem
