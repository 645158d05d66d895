"""``POST /v1/chat/completions``: text and recordings in, text and audio out, plain or streamed."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from firstword.gateway import bodies
from firstword.gateway.answering import Answering
from firstword.gateway.context import Here
from firstword.gateway.relay import relay

router = APIRouter()
_PATH = "/v1/chat/completions"


@router.post(_PATH)
async def chat_completions(request: Request, gateway: Here) -> Response:
    """Answer a conversation."""
    body = await bodies.read(request, gateway.settings.body_limit)
    name = body.fields.get("model")
    target = gateway.target(request, name, "chat")
    asker = gateway.asker(request, target)
    sent = body.raw if target.model == name else {**body.fields, "model": target.model}
    return Answering(relay(gateway.admission, target.model, asker, _PATH, sent), gateway.settings.chat_deadline)
