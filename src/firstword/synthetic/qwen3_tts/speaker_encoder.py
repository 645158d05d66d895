"""The speaker encoder (ECAPA-TDNN): a mel spectrogram of reference audio to one talker position."""

import numpy as np

from firstword.synthetic.qwen3_tts import layout as at
from firstword.synthetic.weights import Array, Draws

MEL = 128
CHANNELS = (32, 32, 32, 32, 96)
KERNELS = (5, 3, 3, 3, 1)
DILATIONS = (1, 2, 3, 4, 1)
ATTENTION = 16
SQUEEZE = 16
RES2NET = 8


def config() -> dict[str, object]:
    """Return the ``speaker_encoder_config``: only the keys that its class knows."""
    return {
        "mel_dim": MEL,
        "enc_dim": at.HIDDEN,
        "enc_channels": list(CHANNELS),
        "enc_kernel_sizes": list(KERNELS),
        "enc_dilations": list(DILATIONS),
        "enc_attention_channels": ATTENTION,
        "enc_res2net_scale": RES2NET,
        "enc_se_channels": SQUEEZE,
        "sample_rate": 24000,
    }


def build(draws: Draws) -> dict[str, Array]:
    """Return the speaker encoder's tensors by their published names."""
    draws = draws.scoped("speaker_encoder.")
    shapes = {"blocks.0.conv": (CHANNELS[0], MEL, KERNELS[0])}
    for block in range(1, len(CHANNELS) - 1):
        width, part = CHANNELS[block], CHANNELS[block] // RES2NET
        shapes[f"blocks.{block}.tdnn1.conv"] = (width, CHANNELS[block - 1], 1)
        for piece in range(RES2NET - 1):
            shapes[f"blocks.{block}.res2net_block.blocks.{piece}.conv"] = (part, part, KERNELS[block])
        shapes[f"blocks.{block}.tdnn2.conv"] = (width, width, 1)
        shapes[f"blocks.{block}.se_block.conv1"] = (SQUEEZE, width, 1)
        shapes[f"blocks.{block}.se_block.conv2"] = (width, SQUEEZE, 1)
    shapes["mfa.conv"] = (CHANNELS[-1], CHANNELS[-1], KERNELS[-1])
    shapes["asp.tdnn.conv"] = (ATTENTION, 3 * CHANNELS[-1], 1)
    shapes["asp.conv"] = (CHANNELS[-1], ATTENTION, 1)
    tensors: dict[str, Array] = {}
    for name, shape in shapes.items():
        tensors[f"{name}.weight"] = draws.spread(name, shape, (2 / (shape[1] * shape[2])) ** 0.5)
        tensors[f"{name}.bias"] = draws.spread(f"{name}.bias", shape[:1], 0.1)
    # Zero sums: a louder reference shifts every band of a log mel spectrogram alike, and shall not matter.
    tensors["blocks.0.conv.weight"] -= tensors["blocks.0.conv.weight"].mean(axis=(1, 2), keepdims=True)
    tensors["blocks.0.conv.weight"] *= 0.5
    tensors |= _last(draws)
    return {f"speaker_encoder.{name}": tensor for name, tensor in tensors.items()}


def _last(draws: Draws) -> dict[str, Array]:
    """Put the result where a speaker of CustomVoice would have it: content, and the two flags."""
    inputs = 2 * CHANNELS[-1]
    weight = np.zeros((at.HIDDEN, inputs, 1), np.float32)
    content = draws.spread("fc", (at.CONTENT_SIZE, inputs, 1), 3 / inputs**0.5)
    weight[at.CONTENT :] = content - content.mean(axis=1, keepdims=True)
    bias = np.zeros(at.HIDDEN, np.float32)
    bias[[at.CODEC, at.SPEAKER]] = 1.0
    return {"fc.weight": weight, "fc.bias": bias}
