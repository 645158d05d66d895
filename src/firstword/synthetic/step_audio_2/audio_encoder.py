"""The audio encoder and its adapter: what is heard becomes votes for the language model.

Each of the language model's `BITS` bits listens to one random pattern over the mel bands. A pattern sums
to zero and is blind to broad shapes and to what the filterbank itself makes of noise, so neither
loudness nor the tilt that all voices share decides, but where exactly the energy lies.

Patterns run through the network as *pairs* of channels, x and -x: gelu(x) - gelu(-x) = x, and what
LayerNorm takes from both cancels, so the difference of a pair is linear in the spectrum up to a positive
factor, whatever stands between. Attention is uniform and adds the mean of all frames to each, so nearly
all frames of one recording agree. The adapter turns each difference into a vote of exactly + or -
`AUDIO_VOTES`, with the two steps that `language_model` explains (its gelu and its relu are flat on one
side each).
"""

import numpy as np

from firstword.synthetic.step_audio_2 import language_model, mel
from firstword.synthetic.step_audio_2.language_model import BITS
from firstword.synthetic.step_audio_2.weights import Floats

CONTEXT = 1500
STATE = 2 * BITS
ATTENTION_HEADS = 2
LAYERS = 2
ADAPTER = 2048  # hard-coded in vLLM-Omni's Adaptor
KERNEL = 3
STRIDE = 2

_BROAD = 8  # so many cosines over the mel scale are taken out of each pattern
_MEAN_GAIN = 8.0  # how much the mean of all frames outweighs each frame's own
_STEEP = 2.0**14
_BEND = 32.0


def state(rng: np.random.Generator) -> dict[str, Floats]:
    """Return the weights of encoder and adapter, by their published names."""
    pair = np.kron(np.eye(BITS, dtype=np.float32), np.array([[1, -1], [-1, 1]], np.float32))  # [STATE, STATE]
    tensors = {
        "encoder.conv1.weight": _over_time(np.repeat(_patterns(rng), 2, axis=0) * _alternating(), taps=3),
        "encoder.conv1.bias": np.zeros(STATE, np.float32),
        "encoder.conv2.weight": _over_time(pair, taps=3),
        "encoder.conv2.bias": np.zeros(STATE, np.float32),
        "encoder.positional_embedding.weight": np.zeros((CONTEXT, STATE), np.float32),
        "encoder.after_norm.weight": np.ones(STATE, np.float32),
        "encoder.after_norm.bias": np.zeros(STATE, np.float32),
    }
    for layer in range(LAYERS):
        tensors |= {f"encoder.blocks.{layer}.{name}": value for name, value in _block().items()}
    return tensors | _adapter()


def _patterns(rng: np.random.Generator) -> Floats:
    """Return one pattern over the mel bands for each bit, float32 ``[BITS, mel.BANDS]``, each of norm 1."""
    place = (np.arange(mel.BANDS) + 0.5) / mel.BANDS
    patterns = rng.standard_normal((BITS, mel.BANDS))
    blind = [np.cos(np.pi * order * place) for order in range(_BROAD)]
    noise = mel.log_mel(0.1 * rng.standard_normal(20 * mel.RATE)).mean(axis=1)
    for shape in blind:  # orthogonal to each other, which the noise's is made here
        noise = noise - (noise * shape).sum() / (shape * shape).sum() * shape
    for shape in (*blind, noise):
        share = (patterns * shape).sum(axis=1) / (shape * shape).sum()
        patterns -= share[:, None] * shape
    scaled: Floats = (patterns / np.sqrt((patterns * patterns).sum(axis=1, keepdims=True))).astype(np.float32)
    return scaled


def _alternating() -> Floats:
    signs: Floats = np.tile(np.array([[1], [-1]], np.float32), (BITS, 1))
    return signs


def _over_time(weight: Floats, taps: int) -> Floats:
    repeated: Floats = np.repeat(weight[:, :, None] / taps, taps, axis=2)
    return repeated


def _block() -> dict[str, Floats]:
    """One residual block: add the mean over all frames; the MLP adds nothing."""
    square = np.zeros((STATE, STATE), np.float32)
    zeros, identity = np.zeros(STATE, np.float32), np.eye(STATE, dtype=np.float32)
    return {
        "attn_ln.weight": np.ones(STATE, np.float32),
        "attn_ln.bias": zeros,
        "attn.query.weight": square,
        "attn.query.bias": zeros,
        "attn.key.weight": square,
        "attn.value.weight": identity,
        "attn.value.bias": zeros,
        "attn.out.weight": _MEAN_GAIN * identity,
        "attn.out.bias": zeros,
        "mlp_ln.weight": np.ones(STATE, np.float32),
        "mlp_ln.bias": zeros,
        "mlp.0.weight": np.zeros((4 * STATE, STATE), np.float32),
        "mlp.0.bias": np.zeros(4 * STATE, np.float32),
        "mlp.2.weight": np.zeros((STATE, 4 * STATE), np.float32),
        "mlp.2.bias": zeros,
    }


def _adapter() -> dict[str, Floats]:
    against = np.zeros((STATE, STATE, KERNEL), np.float32)  # gelu: 0 where a pair leans to +, else large
    first = np.zeros((ADAPTER, STATE), np.float32)  # relu: _BEND where that is 0, else 0
    second = np.zeros((language_model.HIDDEN, ADAPTER), np.float32)
    for bit in range(BITS):
        against[bit, 2 * bit : 2 * bit + 2, KERNEL // 2] = -_STEEP, _STEEP
        first[bit, bit] = -1.0
        second[language_model.Channel.VOTE + bit, bit] = 2 * language_model.AUDIO_VOTES / _BEND
    first_bias = np.zeros(ADAPTER, np.float32)
    first_bias[:BITS] = _BEND
    every_vote_against = np.full(BITS, -language_model.AUDIO_VOTES, np.float32)
    return {
        "adapter.conv.weight": against,
        "adapter.conv.bias": np.zeros(STATE, np.float32),
        "adapter.linear1.weight": first,
        "adapter.linear1.bias": first_bias,
        "adapter.linear2.weight": second,
        "adapter.linear2.bias": language_model.audio_embedding(every_vote_against),
    }
