"""``GET /v1/models`` and ``/v1/models/{id}``: what the engines serve, with what the catalogue knows of it."""

from typing import Any

from fastapi import APIRouter

from firstword.gateway import errors
from firstword.gateway.api import described
from firstword.gateway.context import Here
from firstword.gateway.routing import Router
from firstword.gateway.upstreams import Model

router = APIRouter()


@router.get("/v1/models", responses=described.problems(described.LOOKING))
async def models(gateway: Here) -> dict[str, Any]:
    """List every model that an engine serves, ready or not; their aliases can be asked for, and are not listed."""
    served = gateway.router.models()
    return {"object": "list", "data": [_told(gateway.router, served[name]) for name in sorted(served)]}


@router.get("/v1/models/{model:path}", responses=described.problems(described.LOOKING))
async def model(model: str, gateway: Here) -> dict[str, Any]:
    """Describe one model, by its id or an alias."""
    served = gateway.router.models()
    meant, language = gateway.router.resolve(model)
    if meant not in served:
        raise errors.model_not_found(model, served)
    told = _told(gateway.router, served[meant])
    if meant != model:
        told |= {"id": model, "alias_of": meant, **({"language": language} if language else {})}
    return told


def _told(router: Router, model: Model) -> dict[str, Any]:
    entry = router.entry(model)
    known = entry.model_dump(include={"family", "kind", "licence", "languages", "tasks"}) if entry else {}
    ready = any(upstream.ready for upstream in router.serving(model.id))
    return {
        "id": model.id,
        "object": "model",
        "created": model.since,
        "owned_by": "firstword",
        "ready": ready,
        **known,
    }
