"""What a checkpoint's size follows from: its language model's shape and the bytes of its weights."""

import wave
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstword import documents
from firstword.errors import Exit, FirstwordError

# vLLM-Omni's own voice for Step-Audio-2 lasts 9.04 s, at 50 mel frames a second.
PROMPT_FRAMES = 452


@dataclass(frozen=True)
class Geometry:
    """Sizes of one checkpoint.

    Attributes:
        family: ``qwen3-tts`` or ``step-audio-2``.
        layers: Decoder layers of the talker or thinker.
        kv_heads: Key and value heads of a layer.
        head_dim: Numbers in a key or a value.
        hidden: Width of the residual stream.
        intermediate: Width of the feed-forward network.
        vocabulary: Rows of the output head.
        language_model_bytes: Weights of stage 0, 2 bytes a number.
        vocoder_bytes: Weights beside it: Qwen3-TTS's speech tokenizer, Step-Audio-2's token2wav; 4 bytes a number.
        prompt_frames: Mel frames of the voice that token2wav imitates, which it keeps for each stream.
    """

    family: str
    layers: int
    kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int
    vocabulary: int
    language_model_bytes: int
    vocoder_bytes: int
    prompt_frames: int = PROMPT_FRAMES

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV cache for one token: a key and a value of 2-byte numbers for each head of each layer."""
        return self.layers * self.kv_heads * self.head_dim * 2 * 2


def of_checkpoint(path: Path, family: str) -> Geometry:
    """Return a checkpoint folder's sizes, from its ``config.json`` and its files.

    Raises:
        FirstwordError: The configuration is missing, unreadable, or lacks a number.
    """
    file = path / "config.json"
    try:
        config = documents.read_json(file)
        model = config["talker_config" if family == "qwen3-tts" else "text_config"]
        return _geometry(
            family,
            _architecture(model),
            {str(p.relative_to(path)): p.stat().st_size for p in path.rglob("*") if p.is_file()},
            _prompt_frames(path),
        )
    except OSError as error:
        raise FirstwordError(
            f"cannot read {error.filename or file}: {error.strerror}",
            mend="name a folder that holds a whole checkpoint",
            code=Exit.CHECKPOINT_INCOMPLETE,
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FirstwordError(
            f"{file} does not describe a {family} model ({type(error).__name__}: {error})",
            mend="name a folder that holds a whole checkpoint",
            code=Exit.CHECKPOINT_INCOMPLETE,
        ) from error


def _architecture(model: Mapping[str, Any]) -> dict[str, int]:
    """Return `Geometry`'s fields from ``layers`` to ``vocabulary``.

    Raises:
        KeyError: A number is missing.
        ValueError: One is no whole number above 0.
    """

    def count(*names: str) -> int:
        name = next((name for name in names if model.get(name) is not None), names[0])
        value = model[name]
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} is {value!r}")
        return value

    heads = count("num_attention_heads")
    hidden = count("hidden_size")
    if model.get("head_dim") is None and hidden < heads:
        raise ValueError(f"hidden_size {hidden} for {heads} num_attention_heads")
    return {
        "layers": count("num_hidden_layers"),
        # Step-Audio-2's own configuration class calls it groups.
        "kv_heads": count("num_key_value_heads", "num_attention_groups", "num_attention_heads"),
        "head_dim": hidden // heads if model.get("head_dim") is None else count("head_dim"),
        "hidden": hidden,
        "intermediate": count("intermediate_size"),
        "vocabulary": count("vocab_size"),
    }


def of_sizes(family: str, architecture: Mapping[str, int], sizes: Mapping[str, int]) -> Geometry:
    """Return the sizes of a checkpoint that is not here yet.

    Args:
        family: ``qwen3-tts`` or ``step-audio-2``.
        architecture: `Geometry`'s fields from ``layers`` to ``vocabulary``.
        sizes: Bytes of each file.
    """
    return _geometry(family, architecture, sizes)


def _prompt_frames(path: Path) -> int:
    """Return the length of the checkpoint's own prompt voice, which comes before vLLM-Omni's."""
    file = path / "assets" / "default_female.wav"
    if not file.is_file():
        return PROMPT_FRAMES
    try:
        with wave.open(str(file)) as voice:
            return int(voice.getnframes() * 50 // voice.getframerate())
    except (OSError, EOFError, ArithmeticError, wave.Error):
        return PROMPT_FRAMES


def _geometry(
    family: str, architecture: Mapping[str, Any], sizes: Mapping[str, int], prompt_frames: int = PROMPT_FRAMES
) -> Geometry:
    beside = "speech_tokenizer/" if family == "qwen3-tts" else "token2wav/"
    weights = (".safetensors", ".pt", ".onnx", ".data")
    return Geometry(
        family=family,
        **{name: int(value) for name, value in architecture.items()},
        language_model_bytes=sum(n for p, n in sizes.items() if "/" not in p and p.endswith(".safetensors")),
        vocoder_bytes=sum(n for p, n in sizes.items() if p.startswith(beside) and p.endswith(weights)),
        prompt_frames=prompt_frames,
    )
