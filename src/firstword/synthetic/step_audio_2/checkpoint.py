"""config.json and the four weight files, under the published names."""

import json
import shutil
from pathlib import Path

import numpy as np

from firstword.synthetic.step_audio_2 import audio_encoder, language_model, mel, vocabulary

REMOTE_CODE = "configuration_step_audio_2.py"
SHARDS = 4


def write_config(folder: Path) -> None:
    """Write config.json and the remote code that reads it."""
    text = {
        "model_type": "step_audio_2_text",
        "architectures": ["Qwen2ForCausalLM"],
        "vocab_size": vocabulary.VOCABULARY,
        "hidden_size": language_model.HIDDEN,
        "intermediate_size": language_model.INTERMEDIATE,
        "num_hidden_layers": language_model.LAYERS,
        "num_attention_heads": language_model.HEADS,
        "num_attention_groups": language_model.KV_HEADS,
        "num_key_value_heads": language_model.KV_HEADS,
        "hidden_act": "silu",
        "max_position_embeddings": 16384,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "eos_token_id": vocabulary.STOP_IDS,
    }
    encoder = {
        "model_type": "step_audio_2_encoder",
        "n_mels": mel.BANDS,
        "n_audio_ctx": audio_encoder.CONTEXT,
        "n_audio_state": audio_encoder.STATE,
        "n_audio_head": audio_encoder.ATTENTION_HEADS,
        "n_audio_layer": audio_encoder.LAYERS,
        "llm_dim": language_model.HIDDEN,
        "kernel_size": audio_encoder.KERNEL,
        "adapter_stride": audio_encoder.STRIDE,
    }
    config = {
        "architectures": ["StepAudio2ForCausalLM"],
        "model_type": "step_audio_2",
        "auto_map": {"AutoConfig": "configuration_step_audio_2.StepAudio2Config"},
        "bos_token_id": vocabulary.END_OF_TEXT,
        # There is no generation_config.json, as in the published repository; vLLM then stops at these.
        "eos_token_id": vocabulary.STOP_IDS,
        "pad_token_id": vocabulary.END_OF_TEXT,
        "vocab_size": vocabulary.VOCABULARY,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        # Without a version below 5, transformers takes this for a tokenizer to repair (fix_mistral_regex,
        # which vLLM-Omni passes) and replaces how it cuts text.
        "transformers_version": "4.49.0",
        "text_config": text,
        "audio_encoder_config": encoder,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    shutil.copyfile(Path(__file__).with_name(REMOTE_CODE), folder / REMOTE_CODE)


def write_weights(
    folder: Path, said: vocabulary.Sayable, *, language: np.random.Generator, hearing: np.random.Generator
) -> None:
    """Write ``model-0000k-of-00004.safetensors`` and their index, in bfloat16.

    Args:
        folder: Where to.
        said: What the model can say.
        language: Random numbers for the language model.
        hearing: Random numbers for the audio encoder.
    """
    import torch
    from safetensors.torch import save_file

    tensors = language_model.state(language, said) | audio_encoder.state(hearing)
    where: dict[str, str] = {}
    total = 0
    for shard in range(SHARDS):
        name = f"model-{shard + 1:05d}-of-{SHARDS:05d}.safetensors"
        held = {key: torch.from_numpy(value).bfloat16() for key, value in tensors.items() if _shard(key) == shard}
        save_file(held, folder / name, metadata={"format": "pt"})
        (folder / name).chmod(0o644)  # safetensors writes for the owner only; an engine may run as another user
        where |= dict.fromkeys(held, name)
        total += sum(value.numel() * value.element_size() for value in held.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def _shard(key: str) -> int:
    starts = (("model.embed_tokens.",), ("model.",), ("encoder.", "adapter."), ("lm_head.",))
    return next(number for number, start in enumerate(starts) if key.startswith(start))
