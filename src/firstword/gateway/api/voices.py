"""``GET /v1/audio/voices``: the voices that the engines have now, with what the catalogue knows of them."""

import logging
from typing import Any

import anyio
import httpx
from fastapi import APIRouter

from firstword.gateway.api import described
from firstword.gateway.context import Gateway, Here
from firstword.gateway.upstreams import Model, Upstream

log = logging.getLogger(__name__)
router = APIRouter()
_SECONDS = 10.0


@router.get("/v1/audio/voices", responses=described.problems(described.LOOKING))
async def voices(gateway: Here, model: str | None = None, names: bool = False) -> dict[str, Any]:
    """List voices.

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

    async def ask(name: str, upstream: Upstream) -> None:
        found[name] = [_told(gateway, served[name], voice) for voice in await _voices(gateway.client, upstream)]

    async with anyio.create_task_group() as group:
        for name, upstream in asked.items():
            group.start_soon(ask, name, upstream)
    every = [voice for name in sorted(found) for voice in found[name]]
    return {"voices": sorted({voice["id"] for voice in every}) if names else every}


def _told(gateway: Gateway, model: Model, voice: str) -> dict[str, Any]:
    entry = gateway.router.entry(model)
    known = entry.voices.get(voice) if entry else None
    languages = known.languages if known else entry.languages if entry else ()
    return {"id": voice, "name": known.name if known else voice, "model": model.id, "languages": list(languages)}


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
