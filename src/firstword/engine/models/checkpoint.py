"""A checkpoint folder: what it is, and whether it is whole."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstword import documents
from firstword.engine.models.weights import safetensors_fault, shards
from firstword.errors import Exit, FirstwordError

# What a checkpoint can do, by family. A Qwen3-TTS checkpoint speaks with its own voices, with a voice made from
# instructions, or with one cloned from reference audio; Step-Audio-2-mini speaks, listens and chats.
KINDS: dict[str, tuple[str, ...]] = {
    "qwen3-tts": ("custom_voice", "voice_design", "base"),
    "step-audio-2": ("mini",),
}

# Files without which serving fails, late for the ones in token2wav/ (at the first request for speech).
REQUIRED: dict[str, tuple[str, ...]] = {
    "qwen3-tts": (
        "config.json",
        "tokenizer_config.json",
        "preprocessor_config.json",
        "speech_tokenizer/config.json",
        "speech_tokenizer/preprocessor_config.json",
        "speech_tokenizer/model.safetensors",
    ),
    "step-audio-2": (
        "config.json",
        "tokenizer_config.json",
        "token2wav/flow.yaml",
        "token2wav/flow.pt",
        "token2wav/hift.pt",
        "token2wav/campplus.onnx",
        "token2wav/speech_tokenizer_v2_25hz.onnx",
    ),
}

_MODEL_TYPES = {"qwen3_tts": "qwen3-tts", "step_audio_2": "step-audio-2"}
_MEND = "name a folder that holds a whole checkpoint, or a name from `firstword models list`"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that can be served.

    Attributes:
        name: The catalogue's name, or the folder's.
        family: ``qwen3-tts`` or ``step-audio-2``.
        kind: One of the family's `KINDS`.
        path: The folder.
        revision: The hub's commit, None for a folder that was given or made here.
    """

    name: str
    family: str
    kind: str
    path: Path
    revision: str | None


def recognise(path: Path) -> tuple[str, str]:
    """Return the family and kind of a checkpoint folder, by its ``config.json``.

    Raises:
        FirstwordError: There is no readable configuration, or it is of no family served here.
    """
    config = _json(path / "config.json")
    family = _MODEL_TYPES.get(str(config.get("model_type")))
    if family is None:
        raise FirstwordError(
            f"{path} holds a model of type {config.get('model_type')!r}, not qwen3_tts or step_audio_2",
            mend=_MEND,
            code=Exit.MODEL_UNKNOWN,
        )
    kind = str(config.get("tts_model_type")) if family == "qwen3-tts" else "mini"
    if kind not in KINDS[family]:
        raise FirstwordError(
            f"{path}/config.json has tts_model_type {config.get('tts_model_type')!r}, not one of "
            + ", ".join(KINDS[family]),
            mend=_MEND,
            code=Exit.MODEL_UNKNOWN,
        )
    return family, kind


def faults(path: Path, family: str, *, speaks: bool = True) -> list[str]:
    """Return what is missing from a checkpoint folder or cut short in it, one short text each.

    Sees files that are not there and safetensors files that end early; not changed bytes. Without ``speaks``,
    the files in token2wav/ are not asked for: recognition alone reads none of them.
    """
    wanted = [name for name in REQUIRED[family] if speaks or not name.startswith("token2wav/")]
    absent = [name for name in wanted if not documents.is_readable(path / name)]
    found = [f"{name} {documents.state(path / name)}" for name in absent]
    index = path / "model.safetensors.index.json"
    if documents.is_readable(index):
        try:
            weights = [path / shard for shard in sorted(set(shards(index).values()))]
        except (OSError, ValueError) as error:
            found.append(f"{index.name} is no index: {error}")
            weights = []
    else:
        weights = sorted(path.glob("*.safetensors")) or [path / "model.safetensors"]
    if family == "qwen3-tts":
        weights.append(path / "speech_tokenizer" / "model.safetensors")
    for file in weights:
        name = file.relative_to(path).as_posix()
        if name in absent:
            continue
        if not documents.is_readable(file):
            found.append(f"{name} {documents.state(file)}")
        elif fault := safetensors_fault(file):
            found.append(f"{name}: {fault}")
    return found


def require_whole(path: Path, family: str, *, speaks: bool = True) -> None:
    """Refuse a checkpoint folder that lacks something.

    Raises:
        FirstwordError: A file is missing or cut short; all are named.
    """
    found = faults(path, family, speaks=speaks)
    if found:
        raise FirstwordError(
            f"{path} is incomplete: {'; '.join(found)}",
            mend="copy them there, for this user to read, or name a checkpoint from `firstword models list`",
            code=Exit.CHECKPOINT_INCOMPLETE,
        )


def _json(file: Path) -> dict[str, Any]:
    try:
        data = documents.read_json(file)
    except FileNotFoundError as error:
        raise FirstwordError(
            f"{file.parent} holds no {file.name}", mend=_MEND, code=Exit.CHECKPOINT_INCOMPLETE
        ) from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise FirstwordError(f"cannot read {file}: {why}", mend=_MEND, code=Exit.CHECKPOINT_INCOMPLETE) from error
    if not isinstance(data, dict):
        raise FirstwordError(f"{file} holds no JSON object", mend=_MEND, code=Exit.CHECKPOINT_INCOMPLETE)
    return data
