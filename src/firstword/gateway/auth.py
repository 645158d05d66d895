"""Keys: a bearer token on everything but the two addresses that orchestrators ask.

A browser cannot set a WebSocket's headers, so there the key may come as OpenAI's realtime clients send it
from one: ``new WebSocket(url, ["speech", "openai-insecure-api-key." + key])``.
"""

import hashlib
import hmac
import urllib.parse
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from firstword.gateway.errors import ProblemError

OPEN = frozenset({"/health", "/ready"})
SUBPROTOCOL_KEY = "openai-insecure-api-key."


class KeyGuard:
    """Middleware that refuses requests without a known key. With no keys, everything passes.

    Args:
        app: What it guards.
        keys: Those that clients may use.
    """

    def __init__(self, app: ASGIApp, keys: Sequence[bytes]) -> None:
        self._app = app
        # Compared as digests, which are equally long: the time tells nothing of a key's length either.
        self._digests = tuple(hashlib.sha256(key).digest() for key in keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        problem = self._refused(scope) if scope["type"] in ("http", "websocket") else None
        if problem is not None:
            await problem.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refused(self, scope: Scope) -> ProblemError | None:
        if self._digests:
            return None if scope["path"] in OPEN else self._problem(_key(scope))
        # Browsers let any page open a WebSocket to any address, this machine's own included.
        if scope["type"] == "websocket" and _is_foreign(Headers(scope=scope)):
            return ProblemError(403, "A page of another origin may not open this", code="foreign_origin")
        return None

    def _problem(self, key: str) -> ProblemError | None:
        if not key:
            return ProblemError(
                401,
                "You didn't provide an API key. Provide it as a header: Authorization: Bearer YOUR_KEY",
                code="missing_api_key",
            )
        given = hashlib.sha256(key.encode("latin-1")).digest()
        # Every key is compared, so that the time does not tell which one is near.
        if not any([hmac.compare_digest(given, known) for known in self._digests]):  # noqa: C419
            return ProblemError(401, "Incorrect API key provided.", code="invalid_api_key")
        return None


def _key(scope: Scope) -> str:
    """Return the key that a request brings, or an empty string."""
    scheme, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    offered = (name.removeprefix(SUBPROTOCOL_KEY) for name in _subprotocols(scope) if name.startswith(SUBPROTOCOL_KEY))
    return next(offered, "")


def subprotocol(scope: Scope) -> str | None:
    """Return the first subprotocol that a client offers beside its key: a browser wants one of its own back."""
    return next((name for name in _subprotocols(scope) if not name.startswith(SUBPROTOCOL_KEY)), None)


def _subprotocols(scope: Scope) -> list[str]:
    return list(scope.get("subprotocols") or ()) if scope["type"] == "websocket" else []


def _is_foreign(headers: Headers) -> bool:
    origin = headers.get("origin")
    try:
        return origin is not None and urllib.parse.urlsplit(origin).netloc != headers.get("host")
    except ValueError:  # no address
        return True
