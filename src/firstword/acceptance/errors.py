"""What can go wrong between a client and a server, each as its own class. Standard library only."""

import json
from typing import Any

from firstword import documents


class ClientError(Exception):
    """No answer was had; the message is one line."""


class UnreachableError(ClientError):
    """The server does not take connections, or broke one off."""


class UnknownHostError(UnreachableError):
    """The server's host has no address."""


class TimedOutError(ClientError):
    """The server took the request and did not answer in time."""


class MalformedError(ClientError):
    """The server answered, but not in the shape that the API has."""


class ApiError(ClientError):
    """The server answered with an error.

    Attributes:
        status: The HTTP status; 200 where the error came as an event of a stream.
        message: The server's own words.
        type: The ``type`` of OpenAI's error object, or None.
        param: Its ``param``, or None.
        code: Its ``code``, or None.
        well_formed: Whether the body is an error object in OpenAI's shape.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str | None = None,
        param: str | None = None,
        code: str | int | None = None,
        well_formed: bool = False,
    ) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
        self.message = message
        self.type = kind
        self.param = param
        self.code = code
        self.well_formed = well_formed

    @classmethod
    def from_body(cls, status: int, body: bytes) -> "ApiError":
        """Read OpenAI's ``{"error": {"message", "type", "param", "code"}}``, or keep the body's first line."""
        try:
            return cls.from_object(status, documents.parse_json(body))
        except ValueError:
            lines = body.decode("utf-8", "replace").strip().splitlines() or ["(empty body)"]
            return cls(status, lines[0][:300])

    @classmethod
    def from_object(cls, status: int, document: Any) -> "ApiError":
        """Read the decoded body of an error, or the data of an error event."""
        error = document.get("error") if isinstance(document, dict) else None
        if not isinstance(error, dict):
            return cls(status, json.dumps(document)[:300])
        well_formed = {"message", "type", "param", "code"} <= set(error) and isinstance(error["message"], str)
        return cls(
            status,
            str(error.get("message")),
            kind=error.get("type"),
            param=error.get("param"),
            code=error.get("code"),
            well_formed=well_formed,
        )
