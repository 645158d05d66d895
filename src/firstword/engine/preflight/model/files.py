"""The files that serving reads from a checkpoint, and when the absence of each shows in stock."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstword import documents
from firstword.engine.models.checkpoint import REQUIRED
from firstword.engine.preflight.phases import FIRST_SPEECH, STAGE_PROCESS, START, Phase

INDEX = "model.safetensors.index.json"
WEIGHTS = "model.safetensors"
TOKEN2WAV = "token2wav/"


# What opening a file that is not there raises, where it is no FileNotFoundError.
_RAISES = {
    "campplus.onnx": "NoSuchFile: [ONNXRuntimeError] : 3 : NO_SUCHFILE",
    "speech_tokenizer_v2_25hz.onnx": "RuntimeError: Model ... not found; available models = [...]",
}


@dataclass(frozen=True)
class Needed:
    """A file, or any one of several, as paths in the checkpoint; what reads it, and when its absence shows."""

    any_of: tuple[str, ...]
    reader: str
    phase: Phase


def needed(family: str, config: Mapping[str, Any], *, speaks: bool) -> Iterator[Needed]:
    """Yield what serving reads.

    Args:
        family: ``qwen3-tts`` or ``step-audio-2``.
        config: The checkpoint's config.json; it may name remote code.
        speaks: Whether Step-Audio-2's token2wav is served.
    """
    for name in REQUIRED[family]:
        if name.startswith(TOKEN2WAV):
            if speaks:
                yield Needed((name,), "token2wav", FIRST_SPEECH)
        elif name.startswith("speech_tokenizer/"):
            yield Needed((name,), "the speech tokenizer", STAGE_PROCESS)
        else:
            yield Needed((name,), "the server", START)
    yield Needed(("tokenizer.json", "vocab.json"), "the tokenizer", START)
    yield Needed((WEIGHTS, INDEX), "stage 0", STAGE_PROCESS)
    for module in _remote_code(config):
        yield Needed((f"{module}.py",), "config.json's auto_map", START)


def absence(name: str) -> str:
    """Return the error that the absence of a file ends in."""
    return _RAISES.get(Path(name).name, f"FileNotFoundError: [Errno 2] No such file or directory: '{name}'")


# What transformers, vLLM and vLLM-Omni parse when they start: JSON objects, where they are there.
PARSED = (
    "config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "vocab.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "preprocessor_config.json",
    "generation_config.json",
    "speech_tokenizer/config.json",
    "speech_tokenizer/preprocessor_config.json",
)


def token2wav_files() -> list[str]:
    """Return the names of token2wav's files, as paths in the checkpoint."""
    return [name for name in REQUIRED["step-audio-2"] if name.startswith(TOKEN2WAV)]


def _remote_code(config: Mapping[str, Any]) -> list[str]:
    """Return the modules of the checkpoint that config.json's ``auto_map`` names."""
    found = config.get("auto_map")
    named = found.values() if isinstance(found, dict) else ()
    values = [item for value in named for item in (value if isinstance(value, list) else [value])]
    return sorted({value.rpartition(".")[0] for value in values if isinstance(value, str) and "--" not in value} - {""})


def is_there(model: Path, name: str) -> bool:
    """Whether the checkpoint holds a file of this name that can be read and is not empty."""
    return documents.state(model / name) is None
