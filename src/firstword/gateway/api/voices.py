"""``/v1/audio/voices``: the voices that there are now, and those that clients upload and delete."""

import logging
from functools import partial
from typing import Any

import anyio
import httpx
from fastapi import APIRouter, Request

from firstword.gateway import forms, logs
from firstword.gateway.api import described
from firstword.gateway.audio.decoding import UnreadableError
from firstword.gateway.context import Gateway, Here
from firstword.gateway.errors import ProblemError
from firstword.gateway.upstreams import Model, Upstream
from firstword.gateway.voices import recording, upload
from firstword.gateway.voices.cloning import can_clone
from firstword.gateway.voices.store import Voice, not_found

log = logging.getLogger(__name__)
router = APIRouter()
_SECONDS = 10.0


@router.get("/v1/audio/voices", responses=described.problems(described.LOOKING))
async def voices(gateway: Here, model: str | None = None, names: bool = False) -> dict[str, Any]:
    """List voices: the models' own, and for each model that can clone the uploaded ones.

    Args:
        gateway: The running gateway.
        model: Only this model's; without it, those of every model that is ready.
        names: Bare ids instead of objects.
    """
    served = gateway.router.models()
    if model is not None:
        asked = {model: gateway.router.choose(model)}
    else:
        asked = {name: upstream for name in served for upstream in gateway.router.serving(name) if upstream.ready}
    found: dict[str, list[dict[str, Any]]] = {}
    uploaded = await gateway.threads.soon(gateway.voices.all)

    async def ask(name: str, upstream: Upstream) -> None:
        found[name] = [_told(gateway, served[name], voice) for voice in await _voices(gateway.client, upstream)]
        if can_clone(gateway.router.entry(served[name])):
            found[name] += [_told(gateway, served[name], voice) for voice in uploaded]

    async with anyio.create_task_group() as group:
        for name, upstream in asked.items():
            group.start_soon(ask, name, upstream)
    every = [voice for name in sorted(found) for voice in found[name]]
    return {"voices": sorted({voice["id"] for voice in every}) if names else every}


@router.post(
    "/v1/audio/voices",
    responses=described.problems(described.KEEPING),
    openapi_extra=described.form(upload.Upload, file=upload.FILE),
)
async def create_voice(request: Request, gateway: Here) -> dict[str, Any]:
    """Keep a recording as a voice, which every model that can clone then speaks with."""
    limit = gateway.settings.reference_limit
    with gateway.uploads.room_for(request.headers, limit):
        told, data = await forms.read(request, limit, upload.FILE)
        asked = upload.parse(told, gateway.router.catalogue)
        _require_a_cloner(request, gateway, asked.model)
        try:
            made = await gateway.threads.decode(partial(recording.to_wav, data))
        except UnreadableError as error:
            raise ProblemError(400, f"{upload.FILE}: {error}", code=error.code, param=upload.FILE) from error
    keep = partial(gateway.voices.add, asked.name, asked.consent, asked.ref_text, made)
    voice = await gateway.threads.soon(keep)
    return {"id": voice.id, **_shared(voice)}


@router.delete("/v1/audio/voices/{voice}", responses=described.problems(described.LOOKING))
async def delete_voice(voice: str, gateway: Here) -> dict[str, Any]:
    """Forget an uploaded voice, by its id."""
    if not await gateway.threads.soon(partial(gateway.voices.remove, voice)):
        raise not_found(voice)
    return {"id": voice, "object": "audio.voice", "deleted": True}


def _require_a_cloner(request: Request, gateway: Gateway, named: str | None) -> None:
    """Raise where the model that was named, or every model that is served, has voices of its own only.

    Raises:
        ProblemError: So it is (400), or no model of that name is here (404).
    """
    router, served = gateway.router, gateway.router.models()
    logs.facts(request.scope).model = named
    if named is not None:
        meant, _ = router.resolve(named)
        if meant not in served:
            router.choose(meant)
        if not can_clone(router.entry(served[meant])):
            raise ProblemError(
                400, f"{named[:80]} cannot clone; a Qwen3-TTS Base model can", code="unsupported_model", param="model"
            )
    elif not any(can_clone(router.entry(model)) for model in served.values()):
        raise ProblemError(
            400,
            f"No model here can clone, as a Qwen3-TTS Base model can; there are {', '.join(sorted(served)) or 'none'}",
            code="unsupported_model",
        )


def _told(gateway: Gateway, model: Model, voice: str | Voice) -> dict[str, Any]:
    entry = gateway.router.entry(model)
    if isinstance(voice, Voice):
        languages = entry.languages if entry else ()
        return {"id": voice.id, "model": model.id, "languages": list(languages), "owned_by": "user", **_shared(voice)}
    known = entry.voices.get(voice) if entry else None
    languages = known.languages if known else entry.languages if entry else ()
    return {
        "id": voice,
        "name": known.name if known else voice,
        "model": model.id,
        "languages": list(languages),
        "owned_by": "system",
    }


def _shared(voice: Voice) -> dict[str, Any]:
    """Return what is told of an uploaded voice, as OpenAI does; its consent stays in its file."""
    return {"object": "audio.voice", "name": voice.name, "created_at": voice.created_at}


async def _voices(client: httpx.AsyncClient, upstream: Upstream) -> list[str]:
    """Return an engine's voices; none when it has no such list, or does not answer."""
    try:
        answer = await client.get(f"{upstream.url}/v1/audio/voices", timeout=_SECONDS)
        if answer.status_code == httpx.codes.OK:
            return [str(voice) for voice in answer.json()["voices"]]
        cause = f"status {answer.status_code}"
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        cause = str(error) or type(error).__name__
    log.warning("no voices", extra={"facts": {"upstream": upstream.host, "cause": cause}})
    return []
