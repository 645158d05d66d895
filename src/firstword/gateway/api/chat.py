"""``POST /v1/chat/completions``: text and recordings in, text and sound out, plain or streamed."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from firstword.gateway import bodies
from firstword.gateway.answering import Answering
from firstword.gateway.api import described
from firstword.gateway.catalogue import Task
from firstword.gateway.context import Here
from firstword.gateway.conversation import request as spoken
from firstword.gateway.conversation.speaking import answer_aloud
from firstword.gateway.relay import relay

router = APIRouter()
_PATH = "/v1/chat/completions"


# What is more is the engine's to know.
_BODY = {
    "type": "object",
    "required": ["model", "messages"],
    "properties": {
        "model": {"type": "string"},
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["role"],
                "properties": {
                    "role": {"type": "string", "enum": ["system", "user", "assistant"]},
                    "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
                },
            },
        },
        "modalities": {"type": "array", "items": {"type": "string", "enum": ["text", "audio"]}},
        "audio": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "voice": {"anyOf": [{"type": "string"}, {"type": "object"}]},
                "format": {"type": "string", "enum": sorted(spoken.FORMATS_BY_NAME)},
            },
        },
        "max_completion_tokens": {"type": "integer", "minimum": 1},
        "stream": {"type": "boolean"},
    },
}


@router.post(
    _PATH,
    response_class=Response,
    responses=described.answers("application/json", "text/event-stream"),
    openapi_extra=described.body(_BODY),
)
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
