"""Ask an engine, and tell apart every way in which it does not answer.

A request that an engine has not begun to answer goes to another one of its model, if there is one; one that
it has begun is never asked twice.
"""

import json
import math
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import anyio
import httpx

from firstword.gateway.errors import ProblemError, from_upstream
from firstword.gateway.upstreams import Upstream

_MOST_ERROR_BYTES = 1_000_000


class BrokeOff(Exception):  # noqa: N818  # what happened, in the words of its place
    """An engine began to answer and did not end; the message is the cause."""


@dataclass(frozen=True)
class Asker:
    """Asks the engines of one model for one request of a client.

    Attributes:
        client: Sends to engines.
        choose: Returns the engine to ask, which is none of those given; raises the error to answer if there is none.
        request_id: The client's request's.
        gone: Takes an engine that turns out to be gone, and the cause; returns the error to answer.
        look: Has an engine looked at.
    """

    client: httpx.AsyncClient
    choose: Callable[[Collection[Upstream]], Upstream]
    request_id: str
    gone: Callable[[Upstream, str], ProblemError]
    look: Callable[[Upstream], None]

    @asynccontextmanager
    async def post(self, path: str, body: bytes | dict[str, Any]) -> AsyncIterator[httpx.Response]:
        """Ask, and give the answer with its body unread; leaving the block closes the connection.

        Closing is what tells the engine to stop, so a block that is cancelled ends the engine's work.

        Raises:
            ProblemError: There is no answer, or it is an error; it says which.
            BrokeOff: Reading it in the block failed.
        """
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self._answered(path, content) as (upstream, response):
            upstream.results["begun"] += 1
            if response.status_code != HTTPStatus.OK:
                raise await self._refused(upstream, response)
            try:
                yield response
            except (httpx.HTTPError, httpx.StreamError) as error:
                if isinstance(error, httpx.TransportError):
                    upstream.results["broke_off"] += 1
                    # One answer that broke is no proof that the engine is gone, but a reason to look.
                    self.look(upstream)
                raise BrokeOff(_cause(error)) from error

    async def json(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return a whole answer.

        Raises:
            ProblemError: There is none.
        """
        try:
            async with self.post(path, body) as response:
                document = json.loads(await response.aread())
        except BrokeOff as error:
            raise broke_off(str(error)) from error
        except ValueError as error:
            raise ProblemError(502, "The engine's answer is not JSON", code="bad_upstream") from error
        if not isinstance(document, dict):
            raise ProblemError(502, "The engine's answer is no object", code="bad_upstream")
        return document

    @asynccontextmanager
    async def _answered(self, path: str, content: bytes) -> AsyncIterator[tuple[Upstream, httpx.Response]]:
        """Give an engine that has begun to answer, and its answer."""
        tried: list[Upstream] = []
        resets, problem = 0, None
        while True:
            try:
                upstream = self.choose(tried)
            except ProblemError as error:
                raise (problem or error) from error
            with upstream.busy():
                url, headers = upstream.url + path, _headers(self.request_id)
                request = self.client.build_request("POST", url, content=content, headers=headers)
                try:
                    response = await self.client.send(request, stream=True)
                except httpx.HTTPError as error:
                    upstream.results["not_begun"] += 1
                    problem = self._unanswered(upstream, error)
                    resets += _is_reset(error)
                    # A connection that was taken and broken may be this request's doing: it goes to one other engine,
                    # not through all of them.
                    if not _is_unheard(error) and not (_is_reset(error) and resets == 1):
                        raise problem from error
                    tried.append(upstream)
                    continue
                try:
                    yield upstream, response
                finally:
                    await _close(response)
                return

    async def _refused(self, upstream: Upstream, response: httpx.Response) -> ProblemError:
        status = response.status_code
        if status < HTTPStatus.BAD_REQUEST:
            return ProblemError(502, f"The engine answered with status {status}", code="bad_upstream")
        try:
            return from_upstream(status, await _beginning(response))
        except httpx.HTTPError as error:
            return self._unanswered(upstream, error)

    def _unanswered(self, upstream: Upstream, error: Exception) -> ProblemError:
        cause = _cause(error)
        if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
            seconds = self.client.timeout.read or math.inf
            return ProblemError(504, f"The engine sent nothing for {seconds:g} s", code="upstream_timeout")
        if _is_unheard(error):
            return self.gone(upstream, f"no connection ({cause})")
        self.gone(upstream, cause)
        return ProblemError(502, f"The engine broke off before it answered ({cause})", code="upstream_broke")


def broke_off(cause: str) -> ProblemError:
    """Return the error of an answer that began and did not end."""
    return ProblemError(502, f"The engine broke off in the midst of its answer ({cause})", code="upstream_broke")


def _headers(request_id: str) -> dict[str, str]:
    # Never the client's own: its key is not for the engine.
    return {
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "x-request-id": request_id,
    }


def _is_unheard(error: Exception) -> bool:
    """Return whether an engine was never told of a request."""
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def _is_reset(error: Exception) -> bool:
    """Return whether a connection was broken before any byte of the answer."""
    if isinstance(error, httpx.RemoteProtocolError):
        return "without sending a response" in str(error)
    return isinstance(error, httpx.ReadError | httpx.WriteError)


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


async def _close(response: httpx.Response) -> None:
    with anyio.CancelScope(shield=True):
        await response.aclose()


async def _beginning(response: httpx.Response) -> bytes:
    whole = bytearray()
    async for piece in response.aiter_raw():
        whole += piece
        if len(whole) > _MOST_ERROR_BYTES:
            break
    return bytes(whole)
