"""``POST /v1/audio/speech``: text in, sound out, in every format of OpenAI's, as it is made."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from firstword.gateway import bodies
from firstword.gateway.answering import Answering
from firstword.gateway.api import described
from firstword.gateway.context import Here
from firstword.gateway.speech import request as speech_request
from firstword.gateway.speech.speaking import speak

router = APIRouter()


@router.post(
    "/v1/audio/speech",
    response_class=Response,
    responses=described.answers(*described.sounds(), "text/event-stream"),
    openapi_extra=described.body(speech_request.SpeechRequest.model_json_schema()),
)
async def speech(request: Request, gateway: Here) -> Response:
    """Say a text."""
    settings = gateway.settings
    body = await bodies.read(request, settings.body_limit)
    target = gateway.target(request, body.fields.get("model"), "speech")
    asked = speech_request.parse(body.fields, settings.speech_characters)
    for_engine = speech_request.for_engine(asked, target, gateway.router.catalogue)
    asker = gateway.asker(request, target)
    return Answering(speak(gateway, asker, target, asked, for_engine), settings.speech_deadline)
