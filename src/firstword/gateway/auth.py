"""Keys: a bearer token on everything but the two addresses that orchestrators ask."""

import hashlib
import hmac
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from firstword.gateway.errors import ProblemError

OPEN = frozenset({"/health", "/ready"})


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
        if scope["type"] == "http" and self._digests and scope["path"] not in OPEN:
            problem = self._problem(Headers(scope=scope).get("authorization", ""))
            if problem is not None:
                await problem.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _problem(self, header: str) -> ProblemError | None:
        scheme, _, key = header.partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            return ProblemError(
                401,
                "You didn't provide an API key. Provide it as a header: Authorization: Bearer YOUR_KEY",
                code="missing_api_key",
            )
        given = hashlib.sha256(key.strip().encode("latin-1")).digest()
        # Every key is compared, so that the time does not tell which one is near.
        if not any([hmac.compare_digest(given, known) for known in self._digests]):  # noqa: C419
            return ProblemError(401, "Incorrect API key provided.", code="invalid_api_key")
        return None
