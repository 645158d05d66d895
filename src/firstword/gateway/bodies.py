"""Read a request's JSON body within its limits."""

from dataclasses import dataclass
from typing import Any

from fastapi import Request
from pydantic_core import from_json

from firstword.gateway.errors import ProblemError

# Values in one body. A recording is one value, however long; a million empty lists would take a gigabyte.
MOST_VALUES = 500_000


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
        ProblemError: It is longer than ``limit`` bytes (413), no JSON by its type (415), or no JSON
            object, too deep or of too many values (400).
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


async def _bytes(request: Request, limit: int) -> bytes:
    too_long = ProblemError(413, f"The body is longer than {limit} bytes", code="request_too_large")
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > limit:
        raise too_long
    whole = bytearray()
    async for piece in request.stream():
        whole += piece
        if len(whole) > limit:
            raise too_long
    return bytes(whole)
