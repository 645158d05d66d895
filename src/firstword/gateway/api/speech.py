"""``POST /v1/audio/speech``: text in, audio out, plain or streamed."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from firstword.gateway.context import Here

router = APIRouter()


@router.post("/v1/audio/speech")
async def speech(request: Request, gateway: Here) -> Response:
    """Say a text."""
    return await gateway.relay(request)
