"""flow.yaml and flow.pt: from audio tokens to a mel spectrogram, by flow matching.

The classes are the published ones; fewer and narrower layers, but the decoder keeps the sizes that its
caches have hard-coded. The encoder is random. The decoder's estimator is set by hand to
``dx/dt = k (target - x)`` with ``target = mu + speaker``, so that ten steps lead from noise to the target
whatever the noise, of which a few percent remain: speech depends on tokens and voice, and, as in the
published model, a little on the noise and on the chunks it is made in.
"""

from pathlib import Path

import numpy as np

from firstword.synthetic.step_audio_2 import weights
from firstword.synthetic.step_audio_2.weights import Floats, linear

YAML = """\
flow: !new:cosyvoice2.flow.flow.CausalMaskedDiffWithXvec
    input_size: 64
    output_size: 80
    spk_embed_dim: 192
    output_type: 'mel'
    vocab_size: 6561
    encoder: !new:cosyvoice2.transformer.upsample_encoder_v2.UpsampleConformerEncoderV2
        input_size: 64
        output_size: 64
        input_layer: 'linear'
        pre_lookahead_len: 3
        num_blocks: 1
        num_up_blocks: 1
        up_stride: 2
        up_scale_factor: 2
        attention_heads: 4
        pos_enc_layer_type: 'rel_pos_espnet'
        selfattention_layer_type: 'rel_selfattn'
        key_bias: true
        linear_units: 128
        dropout_rate: 0.1
        positional_dropout_rate: 0.1
        attention_dropout_rate: 0.1
        normalize_before: true
    decoder: !new:cosyvoice2.flow.flow_matching.CausalConditionalCFM
        inference_cfg_rate: 0.7
        estimator: !new:cosyvoice2.flow.decoder_dit.DiT
            in_channels: 320
            out_channels: 80
            mlp_ratio: 0.25
            depth: 1
            num_heads: 8
            head_dim: 64
            hidden_size: 512
"""

MEL = 80
HIDDEN = 512
SPREAD = 0.6  # deviation of mu; classifier-free guidance makes 1.7 times as much of it
SPEAKER_SPREAD = 0.3  # and of what a voice adds to it

_SPEED = 3.0  # k: ten steps leave 2 % of the noise
_GATE = 0.03  # how much attention, convolution and MLP change the estimate
_CONSTANT = 64.0

# The estimator's hidden channels: the difference (target - x) twice, with both signs, so that it has no
# mean; the rest alternates between + and - _CONSTANT. As in `language_model`, that makes LayerNorm
# divide by a known number. The modulation that follows each norm multiplies by it again, and hides the
# constants.
_PLUS, _MINUS = slice(0, MEL), slice(MEL, 2 * MEL)
_NORM = _CONSTANT * ((HIDDEN - 2 * MEL) / HIDDEN) ** 0.5


def write(folder: Path, rng: np.random.Generator) -> None:
    """Write flow.yaml and flow.pt into ``folder``."""
    import torch
    from hyperpyyaml import load_hyperpyyaml

    (folder / "flow.yaml").write_text(YAML)
    with torch.device("meta"):  # shapes without memory: the decoder's caches alone would take 2 GB
        expected = weights.shapes(load_hyperpyyaml(YAML)["flow"])
    given = {name: _value(name, shape, rng) for name, shape in expected.items()}
    weights.save(folder / "flow.pt", expected, given, prefix="")


def _value(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Floats | float:
    estimator = name.removeprefix("decoder.estimator.")
    if estimator in _BY_HAND:
        return _BY_HAND[estimator]()
    if ("norm" in name and name.endswith("weight")) or name.endswith(("out.1.weight", "block.3.weight")):
        return 1.0
    if name.endswith(("bias", "adaLN_modulation.1.weight")) or "t_embedder" in name:
        return 0.0
    if name == "input_embedding.weight":
        return (rng.standard_normal(shape)).astype(np.float32)
    gains = {"encoder_proj.weight": SPREAD, "spk_embed_affine_layer.weight": SPEAKER_SPREAD * 192**0.5}
    return linear(rng, *shape, gain=gains.get(name, 1.0))


def _in_projection() -> Floats:
    noisy, target, speaker, prompt = (np.eye(MEL, dtype=np.float32) * sign for sign in (-1.0, 1.0, 1.0, 0.1))
    weight = np.zeros((HIDDEN, 4 * MEL), np.float32)
    weight[_PLUS] = np.concatenate([noisy, target, speaker, prompt], axis=1)
    weight[_MINUS] = -weight[_PLUS]
    return weight


def _in_bias() -> Floats:
    bias = np.zeros(HIDDEN, np.float32)
    bias[2 * MEL :: 2], bias[2 * MEL + 1 :: 2] = _CONSTANT, -_CONSTANT
    return bias


def _scale() -> Floats:
    """What a modulation adds to 1: undo the norm where something stands, zero elsewhere."""
    scale = np.full(HIDDEN, -1.0, np.float32)
    scale[: 2 * MEL] = _NORM - 1
    return scale


def _block_modulation() -> Floats:
    shift, gate = np.zeros(HIDDEN, np.float32), np.full(HIDDEN, _GATE, np.float32)
    return np.concatenate([shift, _scale(), gate] * 3)


def _final_modulation() -> Floats:
    return np.concatenate([np.zeros(HIDDEN, np.float32), _scale()])


def _out_projection() -> Floats:
    weight = np.zeros((MEL, HIDDEN), np.float32)
    weight[:, _PLUS] = _SPEED / 2 * np.eye(MEL)
    weight[:, _MINUS] = -weight[:, _PLUS]
    return weight


_BY_HAND = {
    "in_proj.weight": _in_projection,
    "in_proj.bias": _in_bias,
    "blocks.0.adaLN_modulation.1.bias": _block_modulation,
    "final_layer.adaLN_modulation.1.bias": _final_modulation,
    "final_layer.linear.weight": _out_projection,
}
