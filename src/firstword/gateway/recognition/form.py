"""A request to recognise a recording: the form, its limits, and what cannot be given."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from firstword.gateway import errors
from firstword.gateway.errors import ProblemError

# Beside the recording: a prompt, names, boundaries.
_FORM_BYTES = 1 << 20

Shape = Literal["json", "text", "srt", "verbose_json", "vtt"]


class Fields(BaseModel):
    """What the form says beside the recording; everything in a form is text.

    Attributes:
        timestamp_granularities: Only segments: the model tells no times of words.
        chunking_strategy: ``auto`` is what is done anyway.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    model: str
    language: str | None = None
    prompt: str | None = None
    response_format: Shape = "json"
    temperature: Annotated[float, Field(ge=0, le=1)] = 0.0
    stream: bool = False
    timestamp_granularities: tuple[Literal["word", "segment"], ...] = ()
    include: tuple[Literal["logprobs"], ...] = ()
    chunking_strategy: str | None = None


@dataclass(frozen=True)
class Form:
    """A request.

    Attributes:
        fields: What it says.
        recording: The file.
    """

    fields: Fields
    recording: bytes


class _InMemory(MultiPartParser):
    """Keeps the recording in memory, where its length is bounded; there may be no disk to write to."""

    spool_max_size = 2**62


# Each is refused, not ignored: the answer would look as if it had been followed.
REFUSED_IN_TRANSLATION = ("language", "stream", "timestamp_granularities", "include", "chunking_strategy")
_LISTS = ("timestamp_granularities", "include")


async def read(request: Request, limit: int) -> tuple[dict[str, list[str]], bytes]:
    """Return the form's text fields, each with all its values, and the recording.

    Args:
        request: The request.
        limit: Bytes of the recording.

    Raises:
        ProblemError: It is no form (415, 400), too long (413), or has no recording (400).
    """
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "multipart/form-data":
        raise ProblemError(415, "The body must be a form: Content-Type: multipart/form-data")
    parser = _InMemory(
        request.headers, _bounded(request, limit), max_files=1, max_fields=100, max_part_size=_FORM_BYTES
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise ProblemError(400, f"The form cannot be read: {error.message}", code="invalid_form") from error
    try:
        return await _told(form, limit)
    finally:
        await form.close()


async def _told(form: FormData, limit: int) -> tuple[dict[str, list[str]], bytes]:
    fields: dict[str, list[str]] = {}
    recording = None
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            if name != "file":
                raise errors.unknown_fields([name])
            recording = await value.read()
        elif name == "file":
            raise ProblemError(400, "file must be sent as a file, with a filename", code="invalid_value", param="file")
        else:
            fields.setdefault(name.removesuffix("[]"), []).append(value)
    if recording is None:
        raise ProblemError(400, "file: no recording was sent", code="missing_required_parameter", param="file")
    if len(recording) > limit:
        raise _too_large(limit)
    return fields, recording


async def _bounded(request: Request, limit: int) -> AsyncGenerator[bytes]:
    announced = request.headers.get("content-length", "0")
    most = limit + _FORM_BYTES
    if announced.isdecimal() and int(announced) > most:
        raise _too_large(limit)
    total = 0
    async for piece in request.stream():
        total += len(piece)
        if total > most:
            raise _too_large(limit)
        yield piece


def _too_large(limit: int) -> ProblemError:
    return ProblemError(
        413, f"file: longer than {limit} bytes, which is the limit", code="file_too_large", param="file"
    )


def parse(told: dict[str, list[str]], *, translating: bool) -> Fields:
    """Return what the form says.

    Raises:
        ProblemError: A field is unknown or wrong, or asks for what cannot be given; it is named.
    """
    twice = [name for name, values in told.items() if len(values) > 1 and name not in _LISTS]
    if twice:
        raise ProblemError(400, f"{twice[0]}: sent twice", code="invalid_value", param=twice[0])
    if translating:
        unknown = [name for name in told if name in REFUSED_IN_TRANSLATION]
        if unknown:
            raise errors.unknown_fields(unknown)
    try:
        fields = Fields.model_validate({name: values if name in _LISTS else values[0] for name, values in told.items()})
    except ValidationError as error:
        raise errors.first_fault(error) from error
    _require_possible(fields)
    return fields


def _require_possible(fields: Fields) -> None:
    if "word" in fields.timestamp_granularities:
        raise _impossible("timestamp_granularities", "the model tells no times of words; segment is given")
    if fields.timestamp_granularities and fields.response_format != "verbose_json":
        raise _impossible("timestamp_granularities", "it needs response_format verbose_json")
    if fields.include:
        raise _impossible("include", "no log probabilities are given")
    if fields.chunking_strategy not in (None, "auto"):
        raise _impossible("chunking_strategy", "only auto is done")
    if fields.stream and fields.response_format not in ("json", "text"):
        raise _impossible("stream", f"with response_format {fields.response_format} there is nothing to stream")


def _impossible(name: str, why: str) -> ProblemError:
    return ProblemError(400, f"{name}: {why}", code="unsupported_parameter", param=name)
