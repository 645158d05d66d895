"""What is known of each model beside what its engine says: ``configs/catalog.yaml``, checked by a schema."""

from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from firstword import paths
from firstword.errors import Exit, FirstwordError

ModelId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
VoiceId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
OpenAiVoice = Literal[
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse"
]
Task = Literal["speech", "chat", "spoken_answer", "transcription", "translation"]
SpeechField = Literal[
    "voice",
    "instructions",
    "language",
    "task_type",
    "ref_audio",
    "ref_text",
    "x_vector_only_mode",
    "speaker_embedding",
    "max_new_tokens",
    "seed",
    "initial_codec_chunk_frames",
    "non_streaming_mode",
    "extra_params",
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Voice(_Strict):
    """A voice that a model was trained with.

    Attributes:
        name: What people call it.
        languages: Those it speaks as a native.
    """

    name: str = Field(min_length=1)
    languages: tuple[Language, ...] = Field(min_length=1)


class Entry(_Strict):
    """One model.

    Attributes:
        family: The architecture.
        kind: What it can do, as in the model locks.
        licence: SPDX identifier.
        languages: Those it speaks or understands.
        tasks: What it can be asked for.
        speech_fields: The optional fields of a request for speech that it follows.
        voices: By the id that a request gives as ``voice``.
        openai_voices: OpenAI's voice names and which of ``voices`` answers to each.
    """

    family: Literal["qwen3-tts", "step-audio-2"]
    kind: Literal["custom_voice", "voice_design", "base", "mini"]
    licence: str = Field(min_length=1)
    languages: tuple[Language, ...] = Field(min_length=1)
    tasks: tuple[Task, ...] = Field(min_length=1)
    speech_fields: tuple[SpeechField, ...] = ()
    voices: dict[VoiceId, Voice] = {}
    openai_voices: dict[OpenAiVoice, VoiceId] = {}

    @model_validator(mode="after")
    def _names_answer_to_a_voice(self) -> Self:
        for name, voice in self.openai_voices.items():
            if voice not in self.voices:
                raise ValueError(f"{name} is mapped to {voice}, which is not among the voices")
        return self


class Catalogue(_Strict):
    """All models by id.

    Attributes:
        models: The entries.
        language_names: What engines and prompts call each language.
        aliases: Further names, each with the models that may answer to it; the first that is served does.
        shared: Where the file keeps the parts that several entries repeat; not read.
    """

    models: dict[ModelId, Entry]
    language_names: dict[Language, str] = {}
    aliases: dict[ModelId, Annotated[tuple[ModelId, ...], Field(min_length=1)]] = {}
    shared: tuple[object, ...] = ()

    @model_validator(mode="after")
    def _names_mean_something(self) -> Self:
        for name, entry in self.models.items():
            for language in entry.languages:
                if language not in self.language_names:
                    raise ValueError(f"{language}, a language of {name}, is not among the language_names")
        for alias, models in self.aliases.items():
            if alias in self.models:
                raise ValueError(f"{alias} is an alias and a model")
            for model in models:
                if model not in self.models:
                    raise ValueError(f"{alias} is an alias of {model}, which is not among the models")
        return self

    def find(self, *names: str) -> Entry | None:
        """Return the entry of the first name that has one.

        Args:
            *names: Model ids, or the checkpoint folders (``root``) that engines tell.
        """
        for name in names:
            entry = self.models.get(name) or self.models.get(name.rstrip("/").rpartition("/")[2])
            if entry is not None:
                return entry
        return None

    def aliased(self, name: str) -> tuple[tuple[str, ...], str | None]:
        """Return the models that may answer to ``name``, if it is an alias, and the language that it ends with."""
        if name in self.aliases:
            return self.aliases[name], None
        for alias in sorted(self.aliases, key=len, reverse=True):
            language = name.removeprefix(f"{alias}-")
            if language != name and all(language in self.models[model].languages for model in self.aliases[alias]):
                return self.aliases[alias], language
        return (), None

    def language(self, told: str) -> str | None:
        """Return the tag of a language told as a tag (``es``, ``es-MX``) or by its name, or None."""
        low = told.strip().lower()
        if low in self.language_names or (low := low.partition("-")[0]) in self.language_names:
            return low
        return next((tag for tag, name in self.language_names.items() if name.lower() == told.strip().lower()), None)


def load(path: Path | None = None) -> Catalogue:
    """Read the catalogue.

    Raises:
        FirstwordError: It is missing, no YAML, or breaks the schema; every fault is named.
    """
    path = path or paths.root() / "configs/catalog.yaml"
    try:
        return Catalogue.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as error:
        raise _broken(path, " ".join(str(error).split())) from error
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}" for fault in error.errors())
        raise _broken(path, "; ".join(faults)) from error


def _broken(path: Path, what: str) -> FirstwordError:
    return FirstwordError(
        f"{path}: {what}",
        mend="correct that file; firstword.gateway.catalogue documents its fields",
        code=Exit.CONFIG,
    )
