"""A form that uploads a voice: OpenAI's fields (name, audio_sample, consent) with vLLM-Omni's ref_text, and a model."""

import re
import unicodedata
from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from firstword.gateway import errors
from firstword.gateway.catalogue import Catalogue, OpenAiVoice
from firstword.gateway.errors import ProblemError
from firstword.gateway.voices.store import ID

FILE = "audio_sample"
_NAME = re.compile(r"[^\W_](?:[\w .'-]{0,62}[\w.'])?")


def _name(value: str) -> str:
    name = unicodedata.normalize("NFC", value.strip())
    if not _NAME.fullmatch(name):
        raise ValueError("letters, digits, spaces and .'-_ make a name, up to 64; a letter or digit begins it")
    return name


def _said(value: str) -> str:
    text = value.strip()
    if not text:
        raise ValueError("it is empty")
    return text


Text = Annotated[str, AfterValidator(_said), Field(max_length=1000)]


class Upload(BaseModel):
    """What the form says beside the recording.

    Attributes:
        name: What the voice is called; unlike every other voice.
        consent: What shows that the speaker agreed, such as the id of a recording; kept, not judged.
        ref_text: What is said in the recording, which brings the clone nearer to it.
        model: Only asked whether it can clone; every model that can speaks with every uploaded voice.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: Annotated[str, AfterValidator(_name)]
    consent: Text
    ref_text: Text | None = None
    model: str | None = None


def parse(told: dict[str, list[str]], catalogue: Catalogue) -> Upload:
    """Return what the form says.

    Raises:
        ProblemError: A field is unknown, missing or wrong, or the name is another voice's; it is named.
    """
    twice = [name for name, values in told.items() if len(values) > 1]
    if twice:
        raise ProblemError(400, f"{twice[0]}: sent twice", code="invalid_value", param=twice[0])
    try:
        upload = Upload.model_validate({name: values[0] for name, values in told.items()})
    except ValidationError as error:
        raise errors.first_fault(error) from error
    own = {"default", *get_args(OpenAiVoice), *(voice for entry in catalogue.models.values() for voice in entry.voices)}
    own |= {voice.name.lower() for entry in catalogue.models.values() for voice in entry.voices.values()}
    if upload.name.lower() in own or ID.fullmatch(upload.name.lower()):
        raise ProblemError(400, f"name: {upload.name} is the name of another voice", code="invalid_value", param="name")
    return upload
