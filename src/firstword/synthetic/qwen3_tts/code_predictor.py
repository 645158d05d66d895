"""The code predictor's weights: random, in signed powers of two."""

import numpy as np

from firstword.synthetic.qwen3_tts import layout as at
from firstword.synthetic.weights import Array, Draws


def build(draws: Draws) -> dict[str, Array]:
    """Return the code predictor's tensors by their published names."""
    draws = draws.scoped("code_predictor.")
    tensors = {"model.norm.weight": np.ones(at.HIDDEN, np.float32)}
    for group in range(at.GROUPS - 1):
        # The talker adds these up for its next input: they must leave its accounts alone.
        embedding = np.zeros((at.CODES, at.HIDDEN), np.float32)
        embedding[:, at.CONTENT :] = draws.signs(f"embedding.{group}", (at.CODES, at.CONTENT_SIZE), 0.25)
        tensors[f"model.codec_embedding.{group}.weight"] = embedding
        tensors[f"lm_head.{group}.weight"] = draws.signs(f"head.{group}", (at.CODES, at.HIDDEN), 0.5, 0.5)
    for layer in range(at.PREDICTOR_LAYERS):
        for name, tensor in _layer(draws.scoped(f"layers.{layer}.")).items():
            tensors[f"model.layers.{layer}.{name}"] = tensor
    return {f"talker.code_predictor.{name}": tensor for name, tensor in tensors.items()}


def _layer(draws: Draws) -> dict[str, Array]:
    queries, keys = at.PREDICTOR_HEADS * at.HEAD_DIM, at.KV_HEADS * at.HEAD_DIM
    shapes = {
        "self_attn.q_proj.weight": (queries, at.HIDDEN),
        "self_attn.k_proj.weight": (keys, at.HIDDEN),
        "self_attn.v_proj.weight": (keys, at.HIDDEN),
        "self_attn.o_proj.weight": (at.HIDDEN, queries),
        "mlp.gate_proj.weight": (at.INTERMEDIATE, at.HIDDEN),
        "mlp.up_proj.weight": (at.INTERMEDIATE, at.HIDDEN),
        "mlp.down_proj.weight": (at.HIDDEN, at.INTERMEDIATE),
    }
    return {
        **{name: draws.signs(name, shape, 0.25, 0.5) for name, shape in shapes.items()},
        "self_attn.q_norm.weight": np.ones(at.HEAD_DIM, np.float32),
        "self_attn.k_norm.weight": np.ones(at.HEAD_DIM, np.float32),
        "input_layernorm.weight": np.ones(at.HIDDEN, np.float32),
        "post_attention_layernorm.weight": np.ones(at.HIDDEN, np.float32),
    }
