"""A request to recognise a recording: what its form may say, and what cannot be given."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from firstword.gateway import errors
from firstword.gateway.errors import ProblemError

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


# Each is refused, not ignored: the answer would look as if it had been followed.
REFUSED_IN_TRANSLATION = ("language", "stream", "timestamp_granularities", "include", "chunking_strategy")
_LISTS = ("timestamp_granularities", "include")


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
