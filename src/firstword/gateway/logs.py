"""JSON lines: one for each request, and whatever else is logged. Never a body, never a key."""

import json
import logging
import re
import sys
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        known = scope[_FACTS] = Facts(given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex)
        status, size, complete = 0, 0, False

        async def counting(message: Message) -> None:
            nonlocal status, size, complete
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = known.request_id
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
                complete = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, counting)
        finally:
            route = getattr(scope.get("route"), "path", None)
            outcome = known.outcome or ("complete" if complete else "broken")
            seconds = time.perf_counter() - known.started
            self._counts.count(known, status, outcome, seconds)
            line = {
                "request_id": known.request_id,
                "method": scope["method"],
                "route": route,
                # The path of what has no route shows what a client got wrong.
                **({} if route else {"path": scope["path"][:200]}),
                "model": known.model and known.model[:200],
                "status": status or None,
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
    # A stream that is broken off on purpose ends so; its request's line says why.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: "returned without completing response" not in record.getMessage()
    )
