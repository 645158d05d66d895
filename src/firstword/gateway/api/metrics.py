"""``GET /metrics``: for Prometheus, with a key like everything else."""

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from firstword.gateway.api import described

router = APIRouter()


@router.get("/metrics", response_class=Response, responses=described.answers("text/plain", statuses=(401, 405)))
async def metrics(request: Request) -> Response:
    """Tell what has been counted."""
    return Response(request.app.state.metrics.page(), media_type=CONTENT_TYPE_LATEST)
