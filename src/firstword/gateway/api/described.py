"""What ``/openapi.json`` says beside what FastAPI sees: bodies that handlers read themselves, and errors."""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from firstword.gateway.audio.formats import FORMATS
from firstword.gateway.auth import OPEN

_ABOUT = {
    400: "A field is wrong, unknown, or asks for what the model cannot do; it is named",
    401: "No key, or a wrong one",
    403: "Refused by the engine",
    404: "No such model or address",
    405: "The address takes other methods",
    408: "The body did not come",
    409: "There is one of that name",
    413: "The body is too long",
    415: "The body is of another type",
    422: "The engine cannot work with it",
    429: "As many requests wait as may; Retry-After tells when to come back",
    500: "The gateway or its engine failed",
    501: "The engine does not do it",
    502: "The engine broke off",
    503: "The model is not ready; Retry-After tells when it may be",
    504: "The engine did not answer in time",
}
ASKING = tuple(status for status in _ABOUT if status != 409)
KEEPING = (400, 401, 404, 405, 408, 409, 413, 415, 429, 500, 503)
LOOKING = (400, 401, 404, 405, 500, 503)

_STRUCTURED = ("application/json", "text/event-stream")


class Fault(BaseModel):
    """What went wrong, in OpenAI's words."""

    message: str
    type: str
    param: str | None
    code: str | None


class Problem(BaseModel):
    """Every error's body."""

    error: Fault


def problems(statuses: Iterable[int]) -> dict[int | str, dict[str, Any]]:
    """Return the answers that are errors."""
    return {status: {"model": Problem, "description": _ABOUT[status]} for status in statuses}


def answers(*types: str, statuses: Iterable[int] = ASKING) -> dict[int | str, dict[str, Any]]:
    """Return a good answer of any of these types, and the errors."""
    good = {kind: {"schema": {} if kind in _STRUCTURED else {"type": "string"}} for kind in types}
    return {200: {"description": "The answer", "content": good}, **problems(statuses)}


def sounds() -> tuple[str, ...]:
    """Return the type of each format of sound."""
    return tuple(fmt.media_type for fmt in FORMATS.values())


def body(schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    """Return a route's own description: the body that it needs."""
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


def form(fields: type[BaseModel], *left_out: str, file: str = "file") -> dict[str, Any]:
    """Return the description of a form: a recording, by the name of its field, and these fields."""
    schema = fields.model_json_schema()
    schema["properties"] = {
        **{name: field for name, field in schema["properties"].items() if name not in left_out},
        file: {"type": "string", "format": "binary", "description": "The recording, in any format"},
    }
    schema["required"] = [*schema["required"], file]
    return body(schema, "multipart/form-data")


def describe(app: FastAPI, *, keys: bool) -> None:
    """Make the application tell the truth of itself.

    Args:
        app: The application, with every route.
        keys: Whether it asks for a key.
    """
    make = app.openapi

    def told() -> dict[str, Any]:
        document = make()
        components = document.setdefault("components", {})
        for name in ("HTTPValidationError", "ValidationError"):
            components.get("schemas", {}).pop(name, None)
        for path, methods in document["paths"].items():
            for operation in methods.values():
                # What follows in a docstring is for readers of the code.
                operation["description"] = operation.get("description", "").partition("\n\n")[0]
                # FastAPI's own error has another shape, and is never sent.
                if "HTTPValidationError" in str(operation["responses"].get("422")):
                    del operation["responses"]["422"]
                if keys and path in OPEN:
                    operation["security"] = []
        if keys:
            components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"key": []}]
        return document

    app.openapi = told  # type: ignore[method-assign]  # FastAPI's documented way to extend it
