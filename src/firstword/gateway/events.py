"""Server-sent events, read from engines and written to clients."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from firstword.acceptance.events import DONE
from firstword.gateway.asking import BrokeOff

__all__ = ["DONE", "deltas", "pack", "read"]


async def read(response: httpx.Response) -> AsyncIterator[Any]:
    """Yield the decoded data of each event; ``[DONE]`` as the string `DONE`.

    Raises:
        BrokeOff: An event is no JSON, or tells of an error.
    """
    async for line in _lines(response):
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == DONE.encode():
            yield DONE
            continue
        try:
            event = json.loads(data)
        except ValueError as error:
            raise BrokeOff("an event of its stream is not JSON") from error
        if not isinstance(event, dict):
            raise BrokeOff("an event of its stream is no object")
        if event.get("error") is not None:
            told = event["error"]
            raise BrokeOff(str(told.get("message") if isinstance(told, dict) else told))
        yield event


def deltas(event: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return the content, perhaps empty, and the reason to finish of each choice in a chat's event.

    Raises:
        BrokeOff: It has another shape than OpenAI's.
    """
    found = []
    try:
        for choice in event.get("choices") or ():
            content = (choice.get("delta") or {}).get("content")
            found.append((content if isinstance(content, str) else "", choice.get("finish_reason")))
    except (TypeError, AttributeError) as error:
        raise BrokeOff("an event of its stream has another shape than OpenAI's") from error
    return found


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield lines by their line feeds alone: a text may hold other characters at which httpx would cut."""
    held = bytearray()
    async for piece in response.aiter_raw():
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            held += piece[start:end]
            yield bytes(held)
            held.clear()
            start = end + 1
        held += piece[start:]
    if held:
        yield bytes(held)


def pack(document: Any, name: str | None = None) -> bytes:
    """Return one event."""
    head = f"event: {name}\n" if name else ""
    # ASCII alone: some clients end lines at U+2028 and the like.
    data = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"))
    return f"{head}data: {data}\n\n".encode()
