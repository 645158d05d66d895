"""``POST /v1/audio/speech``: text in, sound out, in every format of OpenAI's, as it is made."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from firstword.gateway import bodies
from firstword.gateway.answering import Answer, Answering
from firstword.gateway.context import Here
from firstword.gateway.speech import request as speech_request
from firstword.gateway.speech.speaking import speak

router = APIRouter()


@router.post("/v1/audio/speech")
async def speech(request: Request, gateway: Here) -> Response:
    """Say a text."""
    settings = gateway.settings
    body = await bodies.read(request, settings.body_limit)
    target = gateway.target(request, body.fields.get("model"), "speech")
    asked = speech_request.parse(body.fields, settings.speech_characters)
    for_engine = speech_request.for_engine(asked, target, gateway.router.catalogue)
    voice = await gateway.cloning.uploaded(for_engine, target.entry, target.model)
    asker = gateway.asker(request, target)

    async def produce(answer: Answer) -> None:
        body = await gateway.cloning.filled(for_engine, voice)
        await speak(gateway, asker, target, asked, body)(answer)

    return Answering(produce, settings.speech_deadline)
