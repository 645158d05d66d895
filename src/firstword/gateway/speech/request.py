"""A request for speech: OpenAI's fields and defaults, with vLLM-Omni's further ones where the model knows them."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from firstword.gateway import errors
from firstword.gateway.audio.tempo import FASTEST, SLOWEST
from firstword.gateway.catalogue import Catalogue, Entry, SpeechField
from firstword.gateway.errors import ProblemError
from firstword.gateway.routing import Target


def _voice_id(value: object) -> object:
    """Take OpenAI's ``{"id": …}`` for the id."""
    if isinstance(value, dict) and set(value) == {"id"}:
        return value["id"]
    return value


class SpeechRequest(BaseModel):
    """The body. What is left out is None; only OpenAI's fields have defaults.

    Attributes:
        stream: vLLM-Omni's switch: with it and no ``stream_format``, events.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    model: str
    input: str
    voice: Annotated[str | None, BeforeValidator(_voice_id)] = None
    instructions: str | None = None
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    stream_format: Literal["audio", "sse"] | None = None
    speed: Annotated[float, Field(ge=SLOWEST, le=FASTEST)] = 1.0
    stream: bool | None = None
    language: str | None = None
    task_type: Literal["CustomVoice", "VoiceDesign", "Base"] | None = None
    ref_audio: str | list[str] | None = None
    ref_text: str | None = None
    x_vector_only_mode: bool | None = None
    speaker_embedding: list[float] | None = None
    max_new_tokens: int | None = None
    seed: int | None = None
    initial_codec_chunk_frames: int | None = None
    non_streaming_mode: bool | None = None
    extra_params: dict[str, Any] | None = None

    @property
    def events(self) -> bool:
        """Whether the answer is to be a stream of events."""
        return self.stream_format == "sse" or (self.stream_format is None and bool(self.stream))

    @property
    def whole(self) -> bool:
        """Whether a WAV is to have its exact length in front: no stream was asked for."""
        return self.stream_format is None and not self.stream


_OPTIONAL = get_args(SpeechField)
_TASK_TYPES = {"custom_voice": None, "voice_design": "VoiceDesign", "base": "Base", "mini": None}


def parse(fields: dict[str, Any], most_characters: int) -> SpeechRequest:
    """Return the request that a body's fields are.

    Args:
        fields: The body.
        most_characters: Characters that the text may have.

    Raises:
        ProblemError: A field is unknown or wrong; it is named.
    """
    try:
        asked = SpeechRequest.model_validate(fields)
    except ValidationError as error:
        raise errors.first_fault(error) from error
    if len(asked.input) > most_characters:
        message = f"input: {len(asked.input)} characters, the limit is {most_characters}"
        raise ProblemError(400, message, code="string_above_max_length", param="input")
    return asked


def for_engine(asked: SpeechRequest, target: Target, catalogue: Catalogue) -> dict[str, Any]:
    """Return the body for the engine: its samples as events, whatever the client is to get.

    Raises:
        ProblemError: The model would leave a field without effect, or does not speak the language.
    """
    told = {name: value for name in _OPTIONAL if (value := getattr(asked, name)) is not None}
    entry = target.entry
    if entry is not None:
        _fit(told, target.model, entry)
    language = told.get("language", target.language)
    if language is not None and entry is not None and "language" in entry.speech_fields:
        told["language"] = _language(language, entry, catalogue)
    elif target.language is not None and entry is not None:
        raise errors.not_followed(target.model, ["language"], "ask without the language in the model's name")
    return {
        "model": target.model,
        "input": asked.input,
        **told,
        "response_format": "pcm",
        "stream_format": "sse",
    }


def _fit(told: dict[str, Any], model: str, entry: Entry) -> None:
    """Make the fields those that the model knows."""
    # OpenAI's clients must name a voice; this name asks for none.
    if "voice" not in entry.speech_fields and told.get("voice") == "default":
        del told["voice"]
    unheeded = [name for name in told if name not in entry.speech_fields]
    if unheeded:
        hint = 'a client that must send a voice may send "default"' if "voice" in unheeded else ""
        raise errors.not_followed(model, unheeded, hint)
    voice = told.get("voice")
    if voice is not None and voice.lower() not in entry.voices:
        told["voice"] = dict(entry.openai_voices).get(voice.lower(), voice)
    if "task_type" not in told and (task := _TASK_TYPES[entry.kind]):
        told["task_type"] = task


def _language(told: str, entry: Entry, catalogue: Catalogue) -> str:
    """Return what the engine calls a language; a name that the catalogue has not is the engine's to judge."""
    tag = catalogue.language(told)
    if tag is None:
        return told
    if tag not in entry.languages:
        spoken = ", ".join(sorted(entry.languages))
        raise ProblemError(400, f"language: {told[:40]} is not among {spoken}", code="invalid_value", param="language")
    return catalogue.language_names[tag]
