"""Errors in OpenAI's shape, wherever they come from."""

import json
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from firstword.acceptance.errors import ApiError

CLIENT_LEFT = 499  # nginx's number; nobody receives it


class ProblemError(Exception):
    """An answer that is an error.

    Args:
        status: HTTP status.
        message: One sentence or two for the client's developer.
        code: OpenAI's machine-readable word, or None.
        param: The request's field at fault, or None.
        retry_after: Seconds after which asking again makes sense, or None.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.retry_after = retry_after

    def body(self) -> dict[str, dict[str, str | None]]:
        """Return OpenAI's error object."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        if self.status == 429:
            kind = "rate_limit_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        """Return the answer to send."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 408:  # what is left of the request is not waited for
            headers["Connection"] = "close"
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.body(), self.status, headers)


def model_missing(models: Iterable[str]) -> ProblemError:
    """Return the error of a request that names no model."""
    return ProblemError(400, f"you must provide a model parameter; {_served(models)}", param="model")


def model_not_found(model: str, models: Iterable[str]) -> ProblemError:
    """Return the error of a request for a model that is not here."""
    return ProblemError(
        404,
        f"The model `{model[:200]}` does not exist or you do not have access to it; {_served(models)}",
        code="model_not_found",
        param="model",
    )


def not_ready(model: str, cause: str, retry_after: int) -> ProblemError:
    """Return the error of a request for a model whose engine gives no answers now."""
    return ProblemError(503, f"{model} is not ready: {cause}", code="model_not_ready", retry_after=retry_after)


def unknown_fields(names: Iterable[str]) -> ProblemError:
    """Return the error of a request with fields that this server does not know."""
    found = sorted(names)
    listed = ", ".join(name[:80] for name in found)
    return ProblemError(400, f"Unknown parameter: {listed}", code="unknown_parameter", param=found[0][:80])


def not_followed(model: str, names: Iterable[str], hint: str = "") -> ProblemError:
    """Return the error of a request with fields that the model would leave without effect."""
    found = sorted(names)
    message = f"{model} cannot follow: {', '.join(found)}" + (f"; {hint}" if hint else "")
    return ProblemError(400, message, code="unsupported_parameter", param=found[0])


def first_fault(error: ValidationError) -> ProblemError:
    """Return the error of a request that breaks its schema: unknown fields all at once, else the first fault."""
    faults = error.errors(include_url=False, include_input=False)
    unknown = [".".join(map(str, fault["loc"])) for fault in faults if fault["type"] == "extra_forbidden"]
    if unknown:
        return unknown_fields(unknown)
    name = str(faults[0]["loc"][0]) if faults[0]["loc"] else None
    message = faults[0]["msg"].removeprefix("Value error, ")
    return ProblemError(400, f"{name}: {message}" if name else message, code="invalid_value", param=name)


def from_upstream(status: int, body: bytes) -> ProblemError:
    """Return an engine's error in OpenAI's shape; its status stays."""
    error = ApiError.from_body(status, body)
    # vLLM repeats the status as an integer where OpenAI has a word.
    code = error.code if isinstance(error.code, str) and not error.code.isdecimal() else None
    param = error.param if isinstance(error.param, str) else None
    return ProblemError(status, _detail(body) or error.message, code=code, param=param)


def handle_in(app: FastAPI) -> None:
    """Make every error that the application answers one of these."""
    app.add_exception_handler(ProblemError, _problem)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(Exception, _defect)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return error.response()


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path[:200]}"
    if error.status_code == 404:
        return ProblemError(404, f"Invalid URL ({where})", code="unknown_url").response()
    if error.status_code == 405:
        response = ProblemError(405, f"Not allowed: {where}", code="method_not_allowed").response()
        response.headers.update(error.headers or {})
        return response
    return ProblemError(error.status_code, str(error.detail)).response()


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    name = str(fault["loc"][-1])
    return ProblemError(400, f"{name}: {fault['msg']}", param=name).response()


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_LEFT)


async def _defect(request: Request, error: Exception) -> Response:
    return ProblemError(500, "The gateway failed; its log tells more under this request's id.").response()


def _served(models: Iterable[str]) -> str:
    listed = ", ".join(sorted(models))
    return f"there {'are' if ',' in listed else 'is'} {listed}" if listed else "no engine has said yet what it serves"


def _detail(body: bytes) -> str | None:
    """Return FastAPI's ``detail``, which engines send where vLLM has no error object of its own."""
    try:
        document: Any = json.loads(body)
    except ValueError:
        return None
    detail = document.get("detail") if isinstance(document, dict) else None
    return detail if isinstance(detail, str) else None
