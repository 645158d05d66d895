"""JSON lines: one for each request, and whatever else is logged. Never a body, never a key."""

import json
import logging
import re
import sys
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)
_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_FACTS = "firstword.facts"


@dataclass
class Facts:
    """What is logged of one request.

    Attributes:
        request_id: The client's own, when it sent a sane one.
        model: What it asked for.
        outcome: Why it did not end as a complete answer, where the one who knows says so.
        kind: What was asked for: speech, chat, transcription or translation.
        served: The model that answered, where that has another name.
        started: When it came, by `time.perf_counter`.
        first_audio: Seconds until its first sound was ready.
        audio_seconds: Seconds of sound made or heard.
        finish_reason: Why the model ended.
    """

    request_id: str
    model: str | None = None
    outcome: str | None = None
    kind: str | None = None
    served: str | None = None
    started: float = field(default_factory=time.perf_counter)
    first_audio: float | None = None
    audio_seconds: float | None = None
    finish_reason: str | None = None


def facts(scope: Scope) -> Facts:
    """Return what is logged of the request in ``scope``."""
    found: Facts = scope[_FACTS]
    return found


def scope_of(scope: Scope, facts: Facts) -> Scope:
    """Return the scope of a request that came within the one of ``scope`` and is logged by itself."""
    return {**scope, _FACTS: facts}


class Counts(Protocol):
    """Counts requests."""

    def count(self, facts: Facts, status: int, outcome: str, seconds: float) -> None:
        """Count one that has ended."""


class RequestLog:
    """Middleware that gives each request an id, and logs and counts it when it has ended.

    Args:
        app: What it surrounds.
        counts: Counts.
    """

    def __init__(self, app: ASGIApp, counts: Counts) -> None:
        self._app, self._counts = app, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        known = scope[_FACTS] = Facts(given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex)
        status, size, complete = 0, 0, False

        async def counting(message: Message) -> None:
            nonlocal status, size, complete
            # "websocket.http.response…" is a WebSocket that is refused.
            kind = message["type"].removeprefix("websocket.")
            if kind in ("http.response.start", "accept"):
                status = message.get("status", HTTPStatus.SWITCHING_PROTOCOLS)
                message.setdefault("headers", [])
                MutableHeaders(scope=message)["x-request-id"] = known.request_id
            elif kind == "http.response.body":
                size += len(message.get("body", b""))
                complete = not message.get("more_body", False)
            elif kind == "send":
                size += len(message.get("bytes") or message.get("text") or "")
            elif kind == "close":
                status, complete = status or HTTPStatus.FORBIDDEN, True
            await send(message)

        try:
            await self._app(scope, receive, counting)
        finally:
            route = getattr(scope.get("route"), "path", None)
            outcome = known.outcome or ("complete" if complete else "broken")
            where = {"method": scope.get("method", "WEBSOCKET"), "route": route}
            # The path of what has no route shows what a client got wrong.
            where |= {} if route else {"path": scope["path"][:200]}
            tell(self._counts, known, where, status=status, outcome=outcome, size=size)


def tell(counts: Counts, facts: Facts, where: dict[str, Any], *, status: int, outcome: str, size: int) -> None:
    """Log and count one request that has ended.

    Args:
        counts: Counts.
        facts: What is known of it.
        where: Method and route.
        status: HTTP status; 0 where none was sent.
        outcome: How it ended.
        size: Bytes sent.
    """
    seconds = time.perf_counter() - facts.started
    counts.count(facts, status, outcome, seconds)
    line = {
        "request_id": facts.request_id,
        **where,
        "model": facts.model and facts.model[:200],
        "status": int(status) or None,
        "outcome": outcome,
        "seconds": round(seconds, 4),
        "bytes": size,
    }
    log.info("request", extra={"facts": line})


class JsonLines(logging.Formatter):
    """Formats a record, and the ``facts`` given with it, as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up() -> None:
    """Send every log line of this process to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # httpx logs each request to an engine, and the gateway has its own line for it.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # A stream that is broken off on purpose ends so, and WebSockets have their address logged; a request's own line
    # says more.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: (
            "returned without completing response" not in record.getMessage()
            and '"WebSocket ' not in record.msg
            and not record.msg.startswith("connection ")
        )
    )
