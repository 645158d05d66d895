"""Send a request on to an engine and its answer back as it comes."""

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus

import anyio
import httpx
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from firstword.gateway import logs
from firstword.gateway.errors import ProblemError, from_upstream
from firstword.gateway.upstreams import Upstream

_PASSED = re.compile(rb"content-type|content-length|x-.*", re.IGNORECASE)
_MOST_ERROR_BYTES = 1_000_000
_EVENT_END = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Relay(Response):
    """The answer of an engine, asked for when this response is sent.

    A client that leaves, before or during the answer, closes the request to the engine, which then stops
    its work. An answer that breaks off breaks off here too: the connection closes without the final chunk,
    after an error event where the answer is a stream of events.

    Args:
        client: Sends to engines.
        upstream: The engine.
        path: What to ask it.
        content: The request's body.
        headers: The request's headers; see `sent_on`.
        gone: Takes the cause when the engine turns out to be gone; returns the error to answer.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        upstream: Upstream,
        *,
        path: str,
        content: bytes,
        headers: Mapping[str, str],
        gone: Callable[[str], ProblemError],
    ) -> None:
        super().__init__()
        self._client, self._upstream, self._gone = client, upstream, gone
        self._request = client.build_request("POST", upstream.url + path, content=content, headers=dict(headers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask, and answer."""
        facts = logs.facts(scope)
        answer = _Answer(send)
        async with anyio.create_task_group() as group:

            async def until_answered() -> None:
                await self._answer(scope, receive, answer, facts)
                group.cancel_scope.cancel()

            group.start_soon(until_answered)
            while (await receive())["type"] != "http.disconnect":
                pass
            if not answer.complete:
                facts.outcome = "client_left"
            group.cancel_scope.cancel()

    async def _answer(self, scope: Scope, receive: Receive, answer: "_Answer", facts: logs.Facts) -> None:
        try:
            with self._upstream.busy():
                await self._pass_on(answer)
        except (httpx.HTTPError, httpx.StreamError) as error:
            cause = str(error) or type(error).__name__
            if answer.started:
                facts.outcome = "upstream_broke"
                await answer.break_off(cause)
                return
            problem = self._unanswered(error, cause)
            facts.outcome = "upstream_timeout" if problem.status == HTTPStatus.GATEWAY_TIMEOUT else "upstream_gone"
            await problem.response()(scope, receive, answer.send)
        except ProblemError as problem:
            await problem.response()(scope, receive, answer.send)

    async def _pass_on(self, answer: "_Answer") -> None:
        response = await self._client.send(self._request, stream=True)
        try:
            if response.status_code >= HTTPStatus.BAD_REQUEST:
                raise from_upstream(response.status_code, await _beginning(response))
            if response.status_code != HTTPStatus.OK:
                raise ProblemError(502, f"The engine answered with status {response.status_code}", code="bad_upstream")
            await answer.start(response.headers)
            async for piece in response.aiter_raw():
                await answer.piece(piece)
            await answer.end()
        finally:
            # Also when cancelled: closing the connection is what tells the engine to stop.
            with anyio.CancelScope(shield=True):
                await response.aclose()

    def _unanswered(self, error: Exception, cause: str) -> ProblemError:
        if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
            return ProblemError(
                504, f"The engine sent nothing for {self._client.timeout.read:g} s", code="upstream_timeout"
            )
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return self._gone(f"no connection ({cause})")
        self._gone(cause)
        return ProblemError(502, f"The engine broke off before it answered ({cause})", code="upstream_broke")


def sent_on(headers: Mapping[str, str], request_id: str) -> dict[str, str]:
    """Return the headers that go to the engine: never the client's key."""
    return {
        "accept": headers.get("accept", "*/*"),
        "accept-encoding": "identity",
        "content-type": "application/json",
        "x-request-id": request_id,
    }


async def _beginning(response: httpx.Response) -> bytes:
    whole = bytearray()
    async for piece in response.aiter_raw():
        whole += piece
        if len(whole) > _MOST_ERROR_BYTES:
            break
    return bytes(whole)


class _Answer:
    """What the client has been sent so far."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = self.complete = False
        self._events = False
        self._last = b""

    async def send(self, message: Message) -> None:
        self.started = True
        self.complete = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    async def start(self, headers: httpx.Headers) -> None:
        self._events = headers.get("content-type", "").startswith("text/event-stream")
        passed = [(name.lower(), value) for name, value in headers.raw if _PASSED.fullmatch(name)]
        await self.send({"type": "http.response.start", "status": 200, "headers": passed})

    async def piece(self, data: bytes) -> None:
        self._last = (self._last + data)[-4:] if len(data) < 4 else data[-4:]
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def break_off(self, cause: str) -> None:
        """Leave the answer without its end: the server then closes the connection without a final chunk."""
        # In the midst of an event there is no place for another; the broken connection has to do.
        if self._events and (not self._last or self._last.endswith(_EVENT_END)):
            problem = ProblemError(
                502, f"The engine broke off in the midst of its answer ({cause})", code="upstream_broke"
            )
            await self.piece(b"event: error\ndata: " + problem.response().body + b"\n\n")
