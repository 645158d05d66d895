"""The speech tokenizer's encoder (Mimi): reference audio at 24 kHz to 16 codes for each 80 ms."""

import numpy as np

from firstword.synthetic.qwen3_tts.layout import CODES, FIRST_REFERENCE_CODE
from firstword.synthetic.weights import Array, Draws

FILTERS = 8
HIDDEN = 64
CODEBOOK = 32
HEADS = 4
INTERMEDIATE = 128
LAYERS = 1
QUANTIZERS = 32
RATIOS = (8, 6, 5, 4)


def config() -> dict[str, object]:
    """Return the ``encoder_config`` of the speech tokenizer."""
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "audio_channels": 1,
        "codebook_dim": CODEBOOK,
        "codebook_size": CODES,
        "compress": 2,
        "dilation_growth_rate": 2,
        "dtype": "float32",
        "frame_rate": 12.5,
        "head_dim": HIDDEN // HEADS,
        "hidden_act": "gelu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": INTERMEDIATE,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "norm_eps": 1e-05,
        "normalize": False,
        "num_attention_heads": HEADS,
        "num_filters": FILTERS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": HEADS,
        "num_quantizers": QUANTIZERS,
        "num_residual_layers": 1,
        "num_semantic_quantizers": 1,
        "pad_mode": "constant",
        "residual_kernel_size": 3,
        "rope_theta": 10000.0,
        "sampling_rate": 24000,
        "sliding_window": 250,
        "trim_right_ratio": 1.0,
        "upsample_groups": HIDDEN,
        "upsampling_ratios": list(RATIOS),
        "use_cache": False,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "use_streaming": False,
        "vector_quantization_hidden_dimension": CODEBOOK,
    }


def build(draws: Draws) -> dict[str, Array]:
    """Return the encoder's tensors by their published names."""
    draws = draws.scoped("speech_encoder.")
    tensors = {**_convolutions(draws), **_transformer(draws), **_quantizers(draws)}
    return {f"encoder.{name}": tensor for name, tensor in tensors.items()}


def _convolutions(draws: Draws) -> dict[str, Array]:
    shapes = {"encoder.layers.0.conv": (FILTERS, 1, 7)}
    layer, channels = 1, FILTERS
    for ratio in reversed(RATIOS):
        shapes[f"encoder.layers.{layer}.block.1.conv"] = (channels // 2, channels, 3)
        shapes[f"encoder.layers.{layer}.block.3.conv"] = (channels, channels // 2, 1)
        shapes[f"encoder.layers.{layer + 2}.conv"] = (2 * channels, channels, 2 * ratio)
        layer, channels = layer + 3, 2 * channels
    shapes[f"encoder.layers.{layer + 1}.conv"] = (HIDDEN, channels, 3)
    tensors: dict[str, Array] = {}
    for name, shape in shapes.items():
        gain = 8.0 if shape[1] == 1 else 1.5  # speech lies near 0.1; ELU halves what it passes
        tensors[f"{name}.weight"] = draws.spread(name, shape, gain / (shape[1] * shape[2]) ** 0.5)
        tensors[f"{name}.bias"] = draws.spread(f"{name}.bias", shape[:1], 0.1)
    name, shape = "downsample.conv", (HIDDEN, HIDDEN, 4)
    tensors[f"{name}.weight"] = draws.spread(name, shape, 1 / (shape[1] * shape[2]) ** 0.5)
    return tensors


def _transformer(draws: Draws) -> dict[str, Array]:
    tensors: dict[str, Array] = {}
    for layer in range(LAYERS):
        prefix = f"encoder_transformer.layers.{layer}"
        shapes = {f"self_attn.{side}_proj": (HIDDEN, HIDDEN) for side in "qkvo"}
        shapes |= {"mlp.fc1": (INTERMEDIATE, HIDDEN), "mlp.fc2": (HIDDEN, INTERMEDIATE)}
        for name, shape in shapes.items():
            tensors[f"{prefix}.{name}.weight"] = draws.spread(f"{prefix}.{name}", shape, 1 / shape[1] ** 0.5)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}.{norm}.weight"] = np.ones(HIDDEN, np.float32)
            tensors[f"{prefix}.{norm}.bias"] = np.zeros(HIDDEN, np.float32)
        for scale in ("self_attn_layer_scale", "mlp_layer_scale"):
            tensors[f"{prefix}.{scale}.scale"] = np.full(HIDDEN, 0.25, np.float32)
    return tensors


def _quantizers(draws: Draws) -> dict[str, Array]:
    tensors: dict[str, Array] = {}
    for kind, books in (("semantic", 1), ("acoustic", QUANTIZERS - 1)):
        prefix = f"quantizer.{kind}_residual_vector_quantizer"
        for side, shape in (("input_proj", (CODEBOOK, HIDDEN, 1)), ("output_proj", (HIDDEN, CODEBOOK, 1))):
            name = f"{prefix}.{side}"
            tensors[f"{name}.weight"] = draws.spread(name, shape, 1 / shape[1] ** 0.5)
        for book in range(books):
            name = f"{prefix}.layers.{book}.codebook"
            vectors = draws.spread(name, (CODES, CODEBOOK), 0.8**book)
            if kind == "semantic":  # out of reach: these codes are the talker's own
                vectors[:FIRST_REFERENCE_CODE] += 1e4
            tensors[f"{name}.embed_sum"] = vectors
            tensors[f"{name}.cluster_usage"] = np.ones(CODES, np.float32)
            tensors[f"{name}.initialized"] = np.ones(1, np.float32)
    return tensors
