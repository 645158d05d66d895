"""The talker's weights: text and codec embeddings, two Qwen3 layers, the codec head."""

import numpy as np

from firstword.synthetic.qwen3_tts import layout as at
from firstword.synthetic.qwen3_tts import pace
from firstword.synthetic.tokenizer import Tokenizer
from firstword.synthetic.weights import Array, Draws

# RoPE turns the last pairs of dimensions slowest (by 5e-3 over 2000 positions): flags live there.
_FLAG_CODEC, _FLAG_SPEAKER, _FLAG_TEXT, _FLAG_BEGIN = 15, 14, 13, 13  # the last in the second layer only
_SLOW = [*range(13, 16), *range(29, 32)]
_FAST = [dim for dim in range(at.HEAD_DIM) if dim not in _SLOW]
_SHARPNESS = 16.0  # flags decide an attention head's choice by e^50
_END_MARGIN = 256.0  # the end token's logit above or below the codes'


def build(draws: Draws, tokenizer: Tokenizer) -> dict[str, Array]:
    """Return the talker's tensors by their published names, the code predictor's left out."""
    tensors = {
        "talker.model.text_embedding.weight": _text_embedding(draws, tokenizer),
        "talker.model.codec_embedding.weight": _codec_embedding(draws),
        "talker.codec_head.weight": _codec_head(draws),
        "talker.model.norm.weight": _norm({at.SUM_FRAMES: 0.0, at.SUM_LEAST: 0.0, at.SUM_COMPLETE: 0.0}),
    }
    for name, tensor in _text_projection().items():
        tensors[f"talker.text_projection.{name}"] = tensor
    for layer, make in enumerate((_counting_layer, _comparing_layer)):
        for name, tensor in make(draws.scoped(f"talker.layers.{layer}.")).items():
            tensors[f"talker.model.layers.{layer}.{name}"] = tensor
    return tensors


def _text_embedding(draws: Draws, tokenizer: Tokenizer) -> Array:
    # Times 32, so that SiLU in the projection is exact (SiLU(32 x) is 32 x or 0).
    rows = np.zeros((tokenizer.size, at.TEXT_HIDDEN), np.float32)
    rows[:, at.CONSTANT] = at.CONSTANT_VALUE
    rows[:, at.CONTENT : at.HIDDEN] = draws.signs("text_embedding", (tokenizer.size, at.CONTENT_SIZE))
    for number, piece in enumerate(tokenizer.pieces):
        rows[number, at.FRAMES] = pace.frames_of(piece)
        rows[number, at.LEAST] = pace.frames_of(piece) * pace.LEAST_SHARE
        rows[number, at.TEXT] = 1.0
    rows[tokenizer.specials[at.TTS_BOS], [at.BEGIN, at.COMPLETE]] = 1.0
    rows[tokenizer.specials[at.TTS_EOS], at.COMPLETE] = -2.0
    return rows * 32.0


def _text_projection() -> dict[str, Array]:
    """SiLU(x) - SiLU(-x) is x: the projection passes the embedding's first half on as it is."""
    same = np.eye(at.HIDDEN, at.TEXT_HIDDEN, dtype=np.float32)
    return {
        "linear_fc1.weight": np.concatenate([same, -same]),
        "linear_fc1.bias": np.zeros(at.TEXT_HIDDEN, np.float32),
        "linear_fc2.weight": np.concatenate([np.eye(at.HIDDEN), -np.eye(at.HIDDEN)], axis=1) / 32.0,
        "linear_fc2.bias": np.zeros(at.HIDDEN, np.float32),
    }


def _codec_embedding(draws: Draws) -> Array:
    rows = np.zeros((at.VOCABULARY, at.HIDDEN), np.float32)
    rows[:, at.CONTENT :] = draws.signs("codec_embedding", (at.VOCABULARY, at.CONTENT_SIZE))
    rows[:, at.CODEC] = 1.0
    rows[: at.CODES, at.FRAMES] = -1.0
    rows[: at.FIRST_REFERENCE_CODE, at.LEAST] = -1.0
    for token, (frames, least) in pace.ONCE.items():
        rows[token, [at.FRAMES, at.LEAST]] = frames, least
    speakers = list(at.SPEAKERS.values())
    rows[speakers, at.SPEAKER] = 1.0
    rows[speakers, at.CONTENT :] *= 2.0
    return rows


def _codec_head(draws: Draws) -> Array:
    rows = np.zeros((at.VOCABULARY, at.HIDDEN), np.float32)
    rows[:, at.CONTENT :] = draws.signs("codec_head", (at.VOCABULARY, at.CONTENT_SIZE), 0.0625)
    never = np.r_[0:1, at.FIRST_REFERENCE_CODE : at.VOCABULARY]
    rows[never, at.CONSTANT] = -_END_MARGIN / at.NORMED_CONSTANT
    rows[at.EOS] = 0.0
    rows[at.EOS, at.CONSTANT] = _END_MARGIN / at.NORMED_CONSTANT
    rows[at.EOS, [at.OPEN_FRAMES, at.OPEN_LEAST, at.OPEN_COMPLETE]] = -4 * _END_MARGIN
    return rows


def _counting_layer(draws: Draws) -> dict[str, Array]:
    """Flag heads: all codec positions (the sums), all others (instructions), the speaker, the text."""
    layer = _Layer(draws, content=0.125)
    layer.key_sign(_FLAG_CODEC, at.CODEC)
    layer.key_sign(_FLAG_SPEAKER, at.SPEAKER)
    layer.key_sign(_FLAG_TEXT, at.TEXT)
    layer.query_constant(0, _FLAG_CODEC, +1.0)
    layer.query_constant(1, _FLAG_CODEC, -1.0)
    layer.query_constant(2, _FLAG_SPEAKER, +1.0)
    layer.query_constant(3, _FLAG_TEXT, +1.0)
    for dim, (source, target) in enumerate(
        [(at.FRAMES, at.SUM_FRAMES), (at.LEAST, at.SUM_LEAST), (at.COMPLETE, at.SUM_COMPLETE)]
    ):
        layer.value(dim, source)
        layer.output(0, dim, target)
    layer.content_values(first=3)
    layer.content_output(1, first=3, scale=0.5)
    layer.content_output(2, first=3, scale=0.25)
    layer.content_output(3, first=3, scale=0.5)
    return layer.tensors()


def _comparing_layer(draws: Draws) -> dict[str, Array]:
    """Flag heads: each looks at the text's beginning while its sum is positive, else at all but that."""
    layer = _Layer(draws, content=0.0625)
    layer.key_sign(_FLAG_BEGIN, at.BEGIN)
    layer.value(0, at.BEGIN)
    pairs = [(at.SUM_FRAMES, at.OPEN_FRAMES), (at.SUM_LEAST, at.OPEN_LEAST), (at.SUM_COMPLETE, at.OPEN_COMPLETE)]
    for head, (source, target) in enumerate(pairs):
        layer.query(head, _FLAG_BEGIN, source, 32768.0)
        layer.output(head, 0, target)
    layer.content_values(first=1)
    layer.content_output(3, first=1, scale=0.0625)
    return layer.tensors()


class _Layer:
    """One decoder layer: flag heads on the first key-value head, random content heads on the second."""

    def __init__(self, draws: Draws, content: float) -> None:
        self._draws = draws
        self._per_kv = at.HEADS // at.KV_HEADS
        self._q = np.zeros((at.HEADS, at.HEAD_DIM, at.HIDDEN), np.float32)
        self._k = np.zeros((at.KV_HEADS, at.HEAD_DIM, at.HIDDEN), np.float32)
        self._v = np.zeros((at.KV_HEADS, at.HEAD_DIM, at.HIDDEN), np.float32)
        self._o = np.zeros((at.HIDDEN, at.HEADS, at.HEAD_DIM), np.float32)
        for head in range(self._per_kv, at.HEADS):
            self._q[head][_FAST, at.CONTENT :] = self._content(f"q.{head}", (len(_FAST), at.CONTENT_SIZE), 1.0)
            self._o[at.CONTENT :, head] = self._content(f"o.{head}", (at.CONTENT_SIZE, at.HEAD_DIM), content)
        self._k[1][_FAST, at.CONTENT :] = self._content("k", (len(_FAST), at.CONTENT_SIZE), 1.0)
        self._v[1][:, at.CONTENT :] = self._content("v", (at.HEAD_DIM, at.CONTENT_SIZE), 0.25)

    def key_sign(self, dim: int, channel: int) -> None:
        """Make a key of +1 where the flag ``channel`` is 1, and of -1 where it is 0."""
        self._k[0, dim, [channel, at.CONSTANT]] = 2.0, -1.0 / at.NORMED_CONSTANT

    def query_constant(self, head: int, dim: int, sign: float) -> None:
        self._q[head, dim, at.CONSTANT] = sign

    def query(self, head: int, dim: int, channel: int, scale: float) -> None:
        self._q[head, dim, channel] = scale

    def value(self, dim: int, channel: int) -> None:
        self._v[0, dim, channel] = 1.0

    def output(self, head: int, dim: int, channel: int) -> None:
        self._o[channel, head, dim] = 1.0

    def content_values(self, first: int) -> None:
        shape = (at.HEAD_DIM - first, at.CONTENT_SIZE)
        self._v[0, first:, at.CONTENT :] = self._content("v.flags", shape, 0.25)

    def content_output(self, head: int, first: int, scale: float) -> None:
        shape = (at.CONTENT_SIZE, at.HEAD_DIM - first)
        self._o[at.CONTENT :, head, first:] = self._content(f"o.{head}", shape, scale)

    def tensors(self) -> dict[str, Array]:
        sharp = np.ones(at.HEAD_DIM, np.float32)
        sharp[_SLOW] = _SHARPNESS
        sharp[_FAST] = 3.0
        return {
            "self_attn.q_proj.weight": self._q.reshape(-1, at.HIDDEN),
            "self_attn.k_proj.weight": self._k.reshape(-1, at.HIDDEN),
            "self_attn.v_proj.weight": self._v.reshape(-1, at.HIDDEN),
            "self_attn.o_proj.weight": self._o.reshape(at.HIDDEN, -1),
            "self_attn.q_norm.weight": sharp,
            "self_attn.k_norm.weight": np.ones(at.HEAD_DIM, np.float32),
            "mlp.gate_proj.weight": self._mlp("gate"),
            "mlp.up_proj.weight": self._mlp("up"),
            "mlp.down_proj.weight": self._mlp_down(),
            "input_layernorm.weight": _norm({}),
            "post_attention_layernorm.weight": _norm({}),
        }

    def _mlp(self, name: str) -> Array:
        rows = np.zeros((at.INTERMEDIATE, at.HIDDEN), np.float32)
        rows[:, at.CONTENT :] = self._content(name, (at.INTERMEDIATE, at.CONTENT_SIZE), 0.0625)
        return rows

    def _mlp_down(self) -> Array:
        rows = np.zeros((at.HIDDEN, at.INTERMEDIATE), np.float32)
        rows[at.CONTENT :] = self._content("down", (at.CONTENT_SIZE, at.INTERMEDIATE), 0.125)
        return rows

    def _content(self, name: str, shape: tuple[int, ...], scale: float) -> Array:
        return self._draws.signs(name, shape, scale, 0.5)


def _norm(others: dict[int, float]) -> Array:
    """Return norm weights that undo the norm's division, the constant's channel left at `NORMED_CONSTANT`."""
    weight = np.full(at.HIDDEN, at.SCALE, np.float32)
    weight[at.CONSTANT] = 1.0
    for channel, value in others.items():
        weight[channel] = value
    return weight
