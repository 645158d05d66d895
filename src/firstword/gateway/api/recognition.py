"""``POST /v1/audio/transcriptions`` and ``/v1/audio/translations``: a recording in, its text out."""

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from firstword.gateway import forms
from firstword.gateway.answering import Answering
from firstword.gateway.api import described
from firstword.gateway.catalogue import Task
from firstword.gateway.context import Gateway, Here
from firstword.gateway.recognition import form
from firstword.gateway.recognition.answer import recognise

router = APIRouter()


_TYPES = ("application/json", "text/plain", "text/vtt")


@router.post(
    "/v1/audio/transcriptions",
    response_class=Response,
    responses=described.answers(*_TYPES, "text/event-stream"),
    openapi_extra=described.form(form.Fields),
)
async def transcriptions(request: Request, gateway: Here) -> Response:
    """Write down what is said in a recording."""
    return _Recognition(request, gateway, translating=False)


@router.post(
    "/v1/audio/translations",
    response_class=Response,
    responses=described.answers(*_TYPES),
    openapi_extra=described.form(form.Fields, *form.REFUSED_IN_TRANSLATION),
)
async def translations(request: Request, gateway: Here) -> Response:
    """Write down in English what is said in a recording."""
    return _Recognition(request, gateway, translating=True)


class _Recognition(Response):
    """The whole request, from its first byte: its recording has room for as long as it is held."""

    def __init__(self, request: Request, gateway: Gateway, *, translating: bool) -> None:
        super().__init__()
        self._request, self._gateway, self._translating = request, gateway, translating

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, gateway = self._request, self._gateway
        limit = gateway.settings.upload_limit
        with gateway.uploads.room_for(request.headers, limit):
            told, recording = await forms.read(request, limit)
            task: Task = "translation" if self._translating else "transcription"
            target = gateway.target(request, told.get("model", [""])[0], task)
            asked = form.Form(form.parse(told, translating=self._translating), recording)
            asker = gateway.asker(request, target)
            produce = recognise(gateway, asker, target, asked, translating=self._translating)
            await Answering(produce, gateway.settings.transcription_deadline)(scope, receive, send)
