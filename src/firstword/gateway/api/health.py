"""``/health`` (this process answers) and ``/ready`` (every required engine has answered for real)."""

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse

from firstword.gateway.api import described
from firstword.gateway.context import Here
from firstword.gateway.routing import Router
from firstword.gateway.upstreams import Condition, Upstream

router = APIRouter()
_NOT_READY: dict[str, Any] = {
    "description": "A required model is not ready",
    "content": {"application/json": {"schema": {"type": "object"}}},
}


@router.get("/health", responses=described.problems((405,)))
async def health() -> dict[str, str]:
    """Say that the gateway is alive; it tells nothing of the engines."""
    return {"status": "alive"}


@router.get("/ready", responses={**described.problems((405,)), 503: _NOT_READY})
async def ready(gateway: Here) -> JSONResponse:
    """Say how each model is: 200 when every required upstream is ready, or another stands in for it, else 503."""
    upstreams = gateway.router.upstreams
    everything = all(_is_covered(upstream, gateway.router) for upstream in upstreams if upstream.required)
    answer = {
        "ready": everything,
        "models": {
            name: _told(_best(gateway.router.serving(name)).condition) for name in sorted(gateway.router.models())
        },
        "upstreams": [
            {
                "host": upstream.host,
                "address": upstream.address,
                "required": upstream.required,
                "models": [model.id for model in upstream.models],
                **_told(upstream.condition),
            }
            for upstream in upstreams
        ],
    }
    return JSONResponse(answer, 200 if everything else 503)


def _is_covered(upstream: Upstream, router: Router) -> bool:
    """Return whether requests for what an engine serves are answered, by it or by another."""
    if upstream.ready or any(other.ready for other in router.upstreams if other.host == upstream.host):
        return True
    # What one serves that has never answered is not known.
    models = [router.serving(model.id) for model in upstream.models]
    return bool(models) and all(any(other.ready for other in serving) for serving in models)


def _best(serving: list[Upstream]) -> Upstream:
    return next((upstream for upstream in serving if upstream.ready), serving[0])


def _told(condition: Condition) -> dict[str, Any]:
    since = datetime.fromtimestamp(condition.since, UTC).isoformat(timespec="seconds")
    return {"state": condition.state, "since": since, "cause": condition.cause}
