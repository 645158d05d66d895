"""``POST /v1/chat/completions``: text and recordings in, text and sound out, plain or streamed."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from firstword.gateway import bodies
from firstword.gateway.answering import Answering
from firstword.gateway.catalogue import Task
from firstword.gateway.context import Here
from firstword.gateway.conversation import request as spoken
from firstword.gateway.conversation.speaking import answer_aloud
from firstword.gateway.relay import relay

router = APIRouter()
_PATH = "/v1/chat/completions"


@router.post(_PATH)
async def chat_completions(request: Request, gateway: Here) -> Response:
    """Answer a conversation: in text as the engine does, byte for byte; aloud as OpenAI does."""
    body = await bodies.read(request, gateway.settings.body_limit)
    name = body.fields.get("model")
    aloud = spoken.wants_sound(body.fields)
    task: Task = "spoken_answer" if aloud else "chat"
    target = gateway.target(request, name, task)
    asker, model = gateway.asker(request, target), target.model
    if aloud:
        asked = spoken.parse(body.fields)
        produce = answer_aloud(gateway, asker, model, asked, spoken.for_engine(body.fields, model))
    else:
        sent = body.raw if model == name else {**body.fields, "model": model}
        produce = relay(gateway.admission, model, asker, _PATH, sent)
    return Answering(produce, gateway.settings.chat_deadline)
