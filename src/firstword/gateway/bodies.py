"""Read a request's JSON body within its limits."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from pydantic_core import from_json

from firstword.gateway.errors import ProblemError

# Values in one body. A recording is one value, however long; a million empty lists would take a gigabyte.
MOST_VALUES = 500_000
# A body holds its share of memory from its first byte on: who sends no more of it, or hardly any, loses it.
SILENCE_SECONDS = 30.0
WHOLE_SECONDS = 600.0


@dataclass(frozen=True)
class Body:
    """A request's body.

    Attributes:
        raw: As it came, and as it is sent on.
        fields: Its top level.
    """

    raw: bytes
    fields: dict[str, Any]


async def read(request: Request, limit: int) -> Body:
    """Return the body of ``request``.

    Raises:
        ProblemError: It is longer than ``limit`` bytes (413), no JSON by its type (415), no JSON object, too deep or
            of too many values (400), or does not come (408).
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Also what keeps a web page elsewhere from posting here unasked: browsers ask first for this type.
    if kind != "application/json" or request.headers.get("content-encoding", "identity") != "identity":
        raise ProblemError(415, "The body must be JSON, sent as it is, with Content-Type: application/json")
    raw = await _bytes(request, limit)
    return Body(raw, parse(raw))


def parse(raw: bytes, what: str = "body") -> dict[str, Any]:
    """Return the top level of a JSON object.

    Raises:
        ProblemError: It is no JSON object, too deep or of too many values.
    """
    try:
        if sum(raw.count(sign) for sign in (b"[", b"{", b",")) > MOST_VALUES:
            raise ProblemError(400, f"The {what} holds too many values", code="invalid_json")
        fields = from_json(raw)
    except ValueError as error:
        # The parser names the place, not the content.
        raise ProblemError(400, f"The {what} is not valid JSON: {error}", code="invalid_json") from error
    if not isinstance(fields, dict):
        raise ProblemError(400, f"The {what} must be a JSON object", code="invalid_json")
    return fields


async def pieces(request: Request) -> AsyncIterator[bytes]:
    """Yield the body as it comes.

    Raises:
        ProblemError: No more of it came for 30 s, or not all within 10 minutes (408).
    """
    stream = aiter(request.stream())
    end = asyncio.get_running_loop().time() + WHOLE_SECONDS
    while True:
        try:
            now = asyncio.get_running_loop().time()
            async with asyncio.timeout_at(min(end, now + SILENCE_SECONDS)):
                piece = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise ProblemError(408, "The body did not come in time", code="request_timeout") from error
        yield piece


async def _bytes(request: Request, limit: int) -> bytes:
    too_long = ProblemError(413, f"The body is longer than {limit} bytes", code="request_too_large")
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > limit:
        raise too_long
    whole = bytearray()
    async for piece in pieces(request):
        whole += piece
        if len(whole) > limit:
            raise too_long
    return bytes(whole)
