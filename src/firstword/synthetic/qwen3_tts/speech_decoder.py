"""The speech tokenizer's decoder: 16 codes a frame to 1920 samples at 24 kHz, noise-like.

Scaled to keep the variance from layer to layer, so that the level at the end hardly depends on the
seed. What came more than 60 frames ago has no effect: a chunk decoded with 72 frames of context equals
the same part of the whole.
"""

import math

import numpy as np

from firstword.synthetic.qwen3_tts.layout import CODES, GROUPS
from firstword.synthetic.weights import Array, Draws

LATENT = 64
CODEBOOK = 64  # twice what one code's vector has, as published
HIDDEN = 64
HEADS = 4
INTERMEDIATE = 128
LAYERS = 2
WINDOW = 24  # frames; LAYERS of them and the convolutions' 12 stay under 72
UPSAMPLE = (2, 2)
RATES = (8, 5, 4, 3)
DILATIONS = 3
CHANNELS = 96
LEVEL = 1 / 16


def config() -> dict[str, object]:
    """Return the ``decoder_config`` of the speech tokenizer."""
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "latent_dim": LATENT,
        "codebook_dim": CODEBOOK,
        "codebook_size": CODES,
        "decoder_dim": CHANNELS,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "head_dim": HIDDEN // HEADS,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": HEADS,
        "num_quantizers": GROUPS,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000,
        "semantic_codebook_size": 4096,
        "sliding_window": WINDOW,
        "upsample_rates": list(RATES),
        "upsampling_ratios": list(UPSAMPLE),
        "vector_quantization_hidden_dimension": CODEBOOK,
    }


def build(draws: Draws) -> dict[str, Array]:
    """Return the decoder's tensors by their published names."""
    parts = _Parts(draws.scoped("speech_decoder."))
    parts.quantizer()
    parts.convolution("pre_conv.conv", LATENT, CODEBOOK, 3)
    parts.transformer()
    for index, factor in enumerate(UPSAMPLE):
        parts.transposed(f"upsample.{index}.0.conv", LATENT, LATENT, factor, taps=1)
        parts.convnext(f"upsample.{index}.1", LATENT)
    parts.convolution("decoder.0.conv", CHANNELS, LATENT, 7)
    channels = CHANNELS
    for index, rate in enumerate(RATES, start=1):
        parts.snake(f"decoder.{index}.block.0", channels)
        parts.transposed(f"decoder.{index}.block.1.conv", channels, channels // 2, rate, taps=2)
        channels //= 2
        for unit in range(2, 2 + DILATIONS):
            parts.residual_unit(f"decoder.{index}.block.{unit}", channels)
    parts.snake(f"decoder.{len(RATES) + 1}", channels)
    parts.last(f"decoder.{len(RATES) + 2}.conv", channels)
    return {f"decoder.{name}": tensor for name, tensor in parts.tensors.items()}


class _Parts:
    """Collects the decoder's tensors; each method adds one module's."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self.tensors: dict[str, Array] = {}

    def quantizer(self) -> None:
        width = CODEBOOK // 2
        for name, books in (("rvq_first", 1), ("rvq_rest", GROUPS - 1)):
            for book in range(books):
                prefix = f"quantizer.{name}.vq.layers.{book}._codebook"
                # Later books refine: each is weaker than the one before it.
                std = 1.0 if name == "rvq_first" else 0.9**book / 2
                self.tensors[f"{prefix}.embedding_sum"] = self._draws.spread(prefix, (CODES, width), std)
                self.tensors[f"{prefix}.cluster_usage"] = np.ones(CODES, np.float32)
            for side, shape in (("input_proj", (width, CODEBOOK, 1)), ("output_proj", (CODEBOOK, width, 1))):
                self._weight(f"quantizer.{name}.{side}", shape)

    def transformer(self) -> None:
        for layer in range(LAYERS):
            prefix = f"pre_transformer.layers.{layer}"
            for side in "qkvo":
                self._weight(f"{prefix}.self_attn.{side}_proj", (HIDDEN, HIDDEN))
            for side in ("gate", "up"):
                self._weight(f"{prefix}.mlp.{side}_proj", (INTERMEDIATE, HIDDEN))
            self._weight(f"{prefix}.mlp.down_proj", (HIDDEN, INTERMEDIATE))
            for norm in ("input_layernorm", "post_attention_layernorm"):
                self._fill(f"{prefix}.{norm}.weight", HIDDEN, 1.0)
            for scale in ("self_attn_layer_scale", "mlp_layer_scale"):
                self._fill(f"{prefix}.{scale}.scale", HIDDEN, 0.25)
        self._fill("pre_transformer.norm.weight", HIDDEN, 1.0)
        for side, shape in (("input_proj", (HIDDEN, LATENT)), ("output_proj", (LATENT, HIDDEN))):
            self._weight(f"pre_transformer.{side}", shape)
            self._fill(f"pre_transformer.{side}.bias", shape[0], 0.0)

    def convnext(self, prefix: str, channels: int) -> None:
        self._weight(f"{prefix}.dwconv.conv", (channels, 1, 7))
        self._weight(f"{prefix}.pwconv1", (4 * channels, channels))
        self._weight(f"{prefix}.pwconv2", (channels, 4 * channels))
        for bias, size in (("dwconv.conv", channels), ("pwconv1", 4 * channels), ("pwconv2", channels)):
            self._fill(f"{prefix}.{bias}.bias", size, 0.0)
        self._fill(f"{prefix}.norm.weight", channels, 1.0)
        self._fill(f"{prefix}.norm.bias", channels, 0.0)
        self._fill(f"{prefix}.gamma", channels, 0.25)

    def residual_unit(self, prefix: str, channels: int) -> None:
        self.snake(f"{prefix}.act1", channels)
        self.convolution(f"{prefix}.conv1.conv", channels, channels, 7)
        self.snake(f"{prefix}.act2", channels)
        self.convolution(f"{prefix}.conv2.conv", channels, channels, 1, gain=0.25)

    def snake(self, prefix: str, channels: int) -> None:
        self._fill(f"{prefix}.alpha", channels, 0.0)
        self._fill(f"{prefix}.beta", channels, 1.0)

    def convolution(self, name: str, outputs: int, inputs: int, width: int, gain: float = 1.0) -> None:
        self._weight(name, (outputs, inputs, width), gain)
        self._fill(f"{name}.bias", outputs, 0.0)

    def transposed(self, name: str, inputs: int, outputs: int, stride: int, taps: int) -> None:
        """Add an upsampling convolution: ``taps`` input samples reach each output sample."""
        rows = self._two_taps(name, outputs * stride, inputs * taps).reshape(outputs, stride, inputs, taps)
        self.tensors[f"{name}.weight"] = rows.transpose(2, 0, 3, 1).reshape(inputs, outputs, taps * stride)
        self._fill(f"{name}.bias", outputs, 0.0)

    def last(self, name: str, channels: int) -> None:
        """Add the convolution to samples: what changed in one channel within six samples. No DC passes."""
        weight = np.zeros((1, channels, 7), np.float32)
        weight[0, 0, [0, 6]] = -LEVEL, LEVEL
        self.tensors[f"{name}.weight"] = weight
        self._fill(f"{name}.bias", 1, 0.0)

    def _weight(self, name: str, shape: tuple[int, ...], gain: float = 1.0) -> None:
        rows = self._two_taps(name, shape[0], math.prod(shape[1:]))
        self.tensors[f"{name}.weight"] = rows.reshape(shape) * np.float32(gain)

    def _two_taps(self, name: str, rows: int, size: int) -> Array:
        """Return weights that keep the variance, two in each row, signed powers of two.

        Such a sum is the same in any order. A CPU adds up in another order for a batch than for a single
        request; this way the samples are the same.
        """
        places = self._draws.places(f"{name}.places", rows, size, 2)
        values = self._draws.signs(f"{name}.values", (rows, 2)) * np.array([1.0, 0.5], np.float32)
        values[:, 0] *= 0.75 + self._draws.signs(f"{name}.sizes", (rows,), 0.25)
        weight = np.zeros((rows, size), np.float32)
        np.put_along_axis(weight, places, values, axis=1)
        return weight

    def _fill(self, name: str, size: int, value: float) -> None:
        self.tensors[name] = np.full(size, value, np.float32)
