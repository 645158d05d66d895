"""Ask an engine, and tell apart every way in which it does not answer."""

import json
import math
from collections.abc import AsyncIterator, Callable
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
    """Asks one engine for one request of a client.

    Attributes:
        client: Sends to engines.
        upstream: The engine.
        request_id: The client's request's.
        gone: Takes the cause when the engine turns out to be gone; returns the error to answer.
    """

    client: httpx.AsyncClient
    upstream: Upstream
    request_id: str
    gone: Callable[[str], ProblemError]

    @asynccontextmanager
    async def post(self, path: str, body: bytes | dict[str, Any]) -> AsyncIterator[httpx.Response]:
        """Ask, and give the answer with its body unread; leaving the block closes the connection.

        Closing is what tells the engine to stop, so a block that is cancelled ends the engine's work.

        Raises:
            ProblemError: There is no answer, or it is an error; it says which.
            BrokeOff: Reading it in the block failed.
        """
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = self.client.build_request(
            "POST", self.upstream.url + path, content=content, headers=_headers(self.request_id)
        )
        with self.upstream.busy():
            response = await self._send(request)
            try:
                yield response
            except (httpx.HTTPError, httpx.StreamError) as error:
                raise BrokeOff(_cause(error)) from error
            finally:
                await _close(response)

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

    async def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            response = await self.client.send(request, stream=True)
        except httpx.HTTPError as error:
            raise self._unanswered(error) from error
        if response.status_code == HTTPStatus.OK:
            return response
        try:
            raise await self._refused(response)
        finally:
            await _close(response)

    async def _refused(self, response: httpx.Response) -> ProblemError:
        status = response.status_code
        if status < HTTPStatus.BAD_REQUEST:
            return ProblemError(502, f"The engine answered with status {status}", code="bad_upstream")
        try:
            return from_upstream(status, await _beginning(response))
        except httpx.HTTPError as error:
            return self._unanswered(error)

    def _unanswered(self, error: Exception) -> ProblemError:
        cause = _cause(error)
        if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
            seconds = self.client.timeout.read or math.inf
            return ProblemError(504, f"The engine sent nothing for {seconds:g} s", code="upstream_timeout")
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return self.gone(f"no connection ({cause})")
        self.gone(cause)
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
