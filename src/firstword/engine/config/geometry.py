"""What a checkpoint's size follows from: its language model's shape and the bytes of its weights."""

import json
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        config = json.loads(file.read_text())
        model = config["talker_config" if family == "qwen3-tts" else "text_config"]
        heads = int(model["num_attention_heads"])
        return _geometry(
            family,
            {
                "layers": model["num_hidden_layers"],
                # Step-Audio-2's own configuration class calls it groups.
                "kv_heads": model.get("num_key_value_heads") or model.get("num_attention_groups") or heads,
                "head_dim": model.get("head_dim") or model["hidden_size"] // heads,
                "hidden": model["hidden_size"],
                "intermediate": model["intermediate_size"],
                "vocabulary": model["vocab_size"],
            },
            {str(p.relative_to(path)): p.stat().st_size for p in path.rglob("*") if p.is_file()},
            _prompt_frames(path),
        )
    except OSError as error:
        raise FirstwordError(
            f"cannot read {file}: {error.strerror}",
            mend="name a folder that holds a whole checkpoint",
            code=Exit.CHECKPOINT_INCOMPLETE,
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FirstwordError(
            f"{file} does not describe a {family} model ({type(error).__name__}: {error})",
            mend="name a folder that holds a whole checkpoint",
            code=Exit.CHECKPOINT_INCOMPLETE,
        ) from error


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
    try:
        with wave.open(str(path / "assets" / "default_female.wav")) as voice:
            return int(voice.getnframes() * 50 // voice.getframerate())
    except (OSError, EOFError, wave.Error):
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
