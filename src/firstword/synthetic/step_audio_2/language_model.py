"""The language model: a real Qwen2 stack whose weights are set by hand, so that it answers in order.

What the weights compute, token by token:

- *Which phase comes next* stands in each token's embedding (`vocabulary`); the rows of ``lm_head`` match
  it. Nothing in between touches it.
- *Which token of that phase* is chosen by `BITS` bits. Each token of the context carries `BITS` votes,
  and the sign of the sum decides each bit: what was read, heard and said all changes the answer.
- *When to stop* is a budget: what stands in the user's turn adds to it (a letter, a piece of audio),
  what the model says takes from it. Below zero the model says ``<|EOT|>``.

How a transformer can count:

1. Query and key weights are zero, so attention is uniform: it gives the mean of its values over all
   tokens so far. The softmax's terms are then exactly 1 and the values small whole numbers, so the sum
   behind that mean is exact in bfloat16 too, in any order, alone or in a batch. Its sign can be trusted.
2. One channel, `Channel.CONSTANT`, holds a number much larger than all others. RMSNorm then divides by
   the same number everywhere; norm weights that multiply by it make every norm the identity.
3. A sign becomes a bit in two steps, because silu is flat on one side only. First ``silu(-G x)`` is 0
   for ``x >= 0`` and large otherwise; then ``silu(K - g y) / K`` is 1 or 0. Both are exact: the smallest
   possible count is far beyond the bend.

All logits are thus whole numbers up to rounding, the best token leads by at least 2, and equal requests
give equal tokens in any company; at a temperature near 0.7 other tokens of the phase still get their
chance.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from firstword.synthetic.step_audio_2 import reading, vocabulary
from firstword.synthetic.step_audio_2.weights import Floats

HIDDEN = 64
LAYERS = 3
HEADS = 2
KV_HEADS = 1
HEAD = HIDDEN // HEADS  # 32: the smallest that vLLM's CPU attention takes
INTERMEDIATE = 64

BITS = 16
PHASE_BITS = 7


class Channel(IntEnum):
    """Where things stand in the residual stream; runs of channels by their first."""

    CONSTANT = 0
    PHASE = 1  # PHASE_BITS: the phase that follows this token, as +1 and -1
    VOTE = 8  # BITS: this token's votes; from the first layer on, those of all tokens so far
    AGAINST = 24  # BITS: 0 where the votes are for it, else large
    BIT = 40  # BITS: 1 where the votes are for it, else 0
    ROLE = 56  # -1 opens the user's turn, +1 the assistant's
    ROLE_COUNT = 57  # negative inside the user's turn
    IN_USER_TURN = 58  # large inside it, else 0
    HEARD = 59  # what this token adds to the budget; 0 outside the user's turn from the second layer on
    SAID = 60  # what this token takes from it, as a negative number
    BUDGET = 61  # mean over all tokens so far
    OVERDRAWN = 62  # 0 while there is budget, else large


CONSTANT = 2.0**30
NORM = CONSTANT / HIDDEN**0.5  # makes RMSNorm the identity, see 2. above
LOUD = 2.0**20  # the mean of all votes, times this, drowns the token's own, which only breaks a tie
STEEP = 2.0**21  # G, for a mean: the smallest, half a unit in 8192 tokens, is still 128
SMALL = 2.0**-14  # scale of silu(-G x) in the stream, to keep it well below CONSTANT
BEND = 32.0  # K: silu(32) is 32 and silu(-32) is 0

PHASE_LOGIT = 8.0
CHOICE_LOGIT = 1.0
END_LOGIT = 64.0

AUDIO_VOTES = 4.0  # a twelfth of a second of input audio weighs as much as four letters
SAID_VOTES = 4.0

HEARD_AUDIO = 2 * reading.AUDIO_TOKEN  # input audio has 12.5 pieces a second: a spoken answer is as long
PAIR_COST = 60.0  # a written answer has 2.5 words for each second of audio
OPENING_BUDGET = 30.5  # of an assistant's turn; the half keeps sums off zero
SPEECH_OPENING = 10.0  # with it, half a second of speech


def state(rng: np.random.Generator, said: vocabulary.Sayable) -> dict[str, Floats]:
    """Return all weights of the language model, by their published names."""
    tensors = {
        "model.embed_tokens.weight": _embeddings(rng, said),
        "model.norm.weight": np.full(HIDDEN, NORM, np.float32),
        "lm_head.weight": _head(rng, said),
    }
    for layer in range(LAYERS):
        tensors |= {f"model.layers.{layer}.{name}": value for name, value in _empty_layer().items()}
    for name, (row, column, value) in _wiring():
        tensors[f"model.layers.{name}.weight"][row, column] = value
    return tensors


def phase_code(phase: NDArray[np.int64] | int) -> Floats:
    """Return phases as +1 and -1, float32 ``[..., PHASE_BITS]``."""
    return _signs(phase, PHASE_BITS)


def audio_embedding(votes: Floats) -> Floats:
    """Return the stream of a piece of input audio: like a token's embedding, with these ``votes``."""
    stream = _blank(1)[0]
    stream[Channel.VOTE : Channel.VOTE + BITS] = votes
    stream[Channel.HEARD] = HEARD_AUDIO
    return stream


def _embeddings(rng: np.random.Generator, said: vocabulary.Sayable) -> Floats:
    table = _blank(vocabulary.VOCABULARY)
    votes = slice(Channel.VOTE, Channel.VOTE + BITS)
    table[:, votes] = rng.integers(0, 2, (vocabulary.VOCABULARY, BITS)) * 2 - 1
    table[said.ids, votes] *= SAID_VOTES

    table[said.ids, Channel.PHASE : Channel.PHASE + PHASE_BITS] = phase_code(said.follows)
    table[vocabulary.TTS_START, Channel.PHASE : Channel.PHASE + PHASE_BITS] = phase_code(vocabulary.OPENING)

    for byte in vocabulary.BYTES:
        table[byte, Channel.HEARD] = reading.weight(byte)
    for role, token in vocabulary.ROLES.items():
        table[token, Channel.ROLE] = {"user": -1, "human": -1, "assistant": 1}.get(role, 0)
    table[vocabulary.ROLES["assistant"], Channel.SAID] = OPENING_BUDGET
    table[vocabulary.TTS_START, Channel.SAID] = SPEECH_OPENING
    table[vocabulary.AUDIO_0 : vocabulary.AUDIO_0 + vocabulary.AUDIO_IDS, Channel.SAID] = -reading.AUDIO_TOKEN
    written = said.ids[said.phase >= vocabulary.WRITTEN_0]
    table[written, Channel.SAID] = -PAIR_COST
    # There is nothing to say after the last phase of a text, so it takes more than any budget has.
    table[said.ids[said.phase == vocabulary.PHASES - 1], Channel.SAID] = -(2.0**17)
    return table


def _blank(tokens: int) -> Floats:
    table = np.zeros((tokens, HIDDEN), np.float32)
    table[:, Channel.CONSTANT] = CONSTANT
    table[:, Channel.PHASE : Channel.PHASE + PHASE_BITS] = phase_code(vocabulary.WRITTEN_0)
    return table


def _head(rng: np.random.Generator, said: vocabulary.Sayable) -> Floats:
    """Match phase and choice. Each phase reads its own few of the bits, so neighbours choose differently."""
    rows = np.zeros((vocabulary.VOCABULARY, HIDDEN), np.float32)
    rows[said.ids, Channel.PHASE : Channel.PHASE + PHASE_BITS] = PHASE_LOGIT * phase_code(said.phase)
    for phase in range(vocabulary.PHASES):
        width = vocabulary.choice_bits(phase)
        read = Channel.BIT + rng.permutation(BITS)[:width]
        here = said.phase == phase
        wanted = CHOICE_LOGIT * _signs(said.choice[here], width)
        rows[np.ix_(said.ids[here], read)] = 2 * wanted
        rows[said.ids[here], Channel.CONSTANT] = -wanted.sum(axis=1) / CONSTANT
    rows[vocabulary.EOT, Channel.CONSTANT] = -END_LOGIT / CONSTANT
    rows[vocabulary.EOT, Channel.OVERDRAWN] = END_LOGIT / (BEND * SMALL)
    return rows


def _empty_layer() -> dict[str, Floats]:
    shapes = {
        "input_layernorm.weight": (HIDDEN,),
        "self_attn.q_proj.weight": (HEADS * HEAD, HIDDEN),
        "self_attn.q_proj.bias": (HEADS * HEAD,),
        "self_attn.k_proj.weight": (KV_HEADS * HEAD, HIDDEN),
        "self_attn.k_proj.bias": (KV_HEADS * HEAD,),
        "self_attn.v_proj.weight": (KV_HEADS * HEAD, HIDDEN),
        "self_attn.v_proj.bias": (KV_HEADS * HEAD,),
        "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD),
        "post_attention_layernorm.weight": (HIDDEN,),
        "mlp.gate_proj.weight": (INTERMEDIATE, HIDDEN),
        "mlp.up_proj.weight": (INTERMEDIATE, HIDDEN),
        "mlp.down_proj.weight": (HIDDEN, INTERMEDIATE),
    }
    return {name: np.full(shape, NORM if "norm" in name else 0, np.float32) for name, shape in shapes.items()}


def _wiring() -> list[tuple[str, tuple[int, int, float]]]:
    """List the weights that are not zero, as (name, (row, column, value))."""
    wires: list[tuple[str, tuple[int, int, float]]] = []

    def mean(layer: int, value: int, sources: list[int], target: int, gain: float = 1.0) -> None:
        """Attention: ``target`` += gain * mean over all tokens so far of the sum of ``sources``."""
        wires.extend((f"{layer}.self_attn.v_proj", (value, source, 1.0)) for source in sources)
        wires.append((f"{layer}.self_attn.o_proj", (target, value, gain)))

    def unit(layer: int, index: int, gate: dict[int, float], up: tuple[int, float], down: tuple[int, float]) -> None:
        """MLP: ``down[0]`` += down[1] * silu(gate . x) * up[1] * x[up[0]]."""
        wires.extend((f"{layer}.mlp.gate_proj", (index, channel, value)) for channel, value in gate.items())
        wires.append((f"{layer}.mlp.up_proj", (index, *up)))
        wires.append((f"{layer}.mlp.down_proj", (down[0], index, down[1])))

    one = (Channel.CONSTANT, 1 / CONSTANT)

    def negative(layer: int, index: int, source: int, target: int, steep: float) -> None:
        """First step of a sign: ``target`` = 0 where ``source`` >= 0, else at least 2 * BEND * SMALL."""
        unit(layer, index, {source: -steep}, one, (target, SMALL))

    def where_zero(source: int) -> dict[int, float]:
        """Second step: the gate that gives BEND where ``source`` is 0, and nothing where it is large."""
        return {Channel.CONSTANT: BEND / CONSTANT, source: -1 / SMALL}

    # First layer: count votes and roles.
    for bit in range(BITS):
        mean(0, bit, [Channel.VOTE + bit], Channel.VOTE + bit, gain=LOUD)
        negative(0, bit, Channel.VOTE + bit, Channel.AGAINST + bit, steep=2 * BEND)
    mean(0, BITS, [Channel.ROLE], Channel.ROLE_COUNT)
    negative(0, BITS, Channel.ROLE_COUNT, Channel.IN_USER_TURN, steep=STEEP)
    # Second layer: make the counts bits; forget what was not heard in the user's turn.
    for bit in range(BITS):
        unit(1, bit, where_zero(Channel.AGAINST + bit), one, (Channel.BIT + bit, 1 / BEND))
    unit(1, BITS, where_zero(Channel.IN_USER_TURN), (Channel.HEARD, 1.0), (Channel.HEARD, -1 / BEND))
    # Third layer: what is left of the budget.
    mean(2, 0, [Channel.HEARD, Channel.SAID], Channel.BUDGET)
    negative(2, 0, Channel.BUDGET, Channel.OVERDRAWN, steep=STEEP)
    return wires


def _signs(number: NDArray[np.int64] | int, width: int) -> Floats:
    bits = (np.asarray(number)[..., None] >> np.arange(width)) & 1
    signs: Floats = (bits * 2 - 1).astype(np.float32)
    return signs
