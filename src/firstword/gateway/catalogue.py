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
        voices: By the id that a request gives as ``voice``.
        openai_voices: OpenAI's voice names and which of ``voices`` answers to each.
    """

    family: Literal["qwen3-tts", "step-audio-2"]
    kind: Literal["custom_voice", "voice_design", "base", "mini"]
    licence: str = Field(min_length=1)
    languages: tuple[Language, ...] = Field(min_length=1)
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
        shared: Where the file keeps the parts that several entries repeat; not read.
    """

    models: dict[ModelId, Entry]
    shared: tuple[object, ...] = ()

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
