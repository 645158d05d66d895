"""Every error answer of the engine in OpenAI's shape, as ``--middleware`` of vLLM's API server.

vLLM shapes the errors of its own handlers. A route or a method that does not exist answers
``{"detail": "Not Found"}``, and a missing API key ``{"error": "Unauthorized"}``: clients of OpenAI's API
find no message in them.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

# ASGI's own names, as plain as they are.
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class ErrorShape:
    """ASGI middleware that shapes JSON error bodies; every other answer passes through untouched.

    Args:
        app: The application it stands before.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held: Message | None = None
        body = b""

        async def shaping(message: Message) -> None:
            nonlocal held, body
            if message["type"] == "http.response.start" and _is_json_error(message):
                held = message
            elif held is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body"):
                    start, held = held, None
                    shaped = _shape(body, start["status"], scope)
                    await send({**start, "headers": _sized(start["headers"], shaped)})
                    await send({"type": "http.response.body", "body": shaped})

        await self._app(scope, receive, shaping)


def _is_json_error(start: Message) -> bool:
    kind = dict(start.get("headers", ())).get(b"content-type", b"")
    return bool(start["status"] >= 400 and kind.startswith(b"application/json"))


def _shape(body: bytes, status: int, scope: Message) -> bytes:
    """Return the body, shaped unless it is already."""
    try:
        document = json.loads(body)
    except ValueError:
        return body
    if isinstance(document, dict) and isinstance(document.get("error"), dict):
        return body
    phrase = HTTPStatus(status).phrase
    told = document.get("detail") or document.get("error") if isinstance(document, dict) else None
    message = told if isinstance(told, str) else phrase
    if message == phrase and status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        message = f"{phrase}: {scope['method']} {scope['path']}"
    error = {"message": message, "type": f"{phrase.title().replace(' ', '')}Error", "param": None, "code": status}
    return json.dumps({"error": error}).encode()


def _sized(headers: list[tuple[bytes, bytes]], body: bytes) -> list[tuple[bytes, bytes]]:
    others = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    return [*others, (b"content-length", str(len(body)).encode())]
