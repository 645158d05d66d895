"""``POST /v1/chat/completions``: text and recordings in, text and audio out, plain or streamed."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from firstword.gateway.context import Here

router = APIRouter()


@router.post("/v1/chat/completions")
async def chat_completions(request: Request, gateway: Here) -> Response:
    """Answer a conversation."""
    return await gateway.relay(request)
