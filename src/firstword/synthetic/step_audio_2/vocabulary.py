r"""The token ids of Step-Audio-2, and the order in which the synthetic model says them.

The published model answers ``<tts_start>`` with text and audio tokens mixed, and ``assistant\n`` with
text alone; both end with ``<|EOT|>``. The synthetic model does the same by walking *phases*: every
token it can say belongs to one phase, and has one phase that follows. Within a phase the model is free
to choose, and what it chooses depends on what it read, heard and said (`language_model`).

- spoken: a pair of words, then one second of audio tokens, over and over;
- written: up to `WRITTEN_PAIRS` pairs of words, never the same phase twice, so a text cannot loop.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 158720

END_OF_TEXT = 151643
IM_START = 151644
IM_END = 151645
EOT = 151665
BOT = 151666
AUDIO_START = 151688
AUDIO_END = 151689
AUDIO_PATCH = 151690
TTS_START = 151693
TTS_END = 151694
TTS_PAD = 151695
AUDIO_0 = 151696
AUDIO_IDS = 6562  # the last one pads; token2wav knows the others
SPEECH_CODES = AUDIO_IDS - 1

SPECIAL = {
    "<|endoftext|>": END_OF_TEXT,
    "<|im_start|>": IM_START,
    "<|im_end|>": IM_END,
    "<|EOT|>": EOT,
    "<|BOT|>": BOT,
    "<audio_start>": AUDIO_START,
    "<audio_end>": AUDIO_END,
    "<audio_patch>": AUDIO_PATCH,
    "<tts_start>": TTS_START,
    "<tts_end>": TTS_END,
    "<tts_pad>": TTS_PAD,
}
STOP_IDS = [END_OF_TEXT, IM_END, EOT]

BYTES = range(256)  # ids of the 256 bytes, see `tokenizer`
ROLES = {"system": 256, "user": 257, "human": 258, "assistant": 259}
FIRST_PAIR = 300  # ids of the word pairs, all phases in a row

AUDIO_PHASES = 50  # two seconds at 25 tokens a second
AUDIO_CHOICE_BITS = 7
OPENING, REFRAIN_A, REFRAIN_B = AUDIO_PHASES, AUDIO_PHASES + 1, AUDIO_PHASES + 2
WRITTEN_0 = AUDIO_PHASES + 3
WRITTEN_PAIRS = 40
PHASES = WRITTEN_0 + WRITTEN_PAIRS
PAIR_CHOICE_BITS = 6

_CONSONANTS = "bdklmnrstvz"
_VOWELS = "aeiou"


@dataclass(frozen=True)
class Sayable:
    """The tokens that the model can say.

    Attributes:
        ids: Token ids, int64 ``[n]``.
        phase: The phase each belongs to, int64 ``[n]``.
        choice: Which token of its phase it is: the phase's choice bits read as a number, int64 ``[n]``.
        follows: The phase that comes after it, int64 ``[n]``.
        words: The text of each word pair, by id.
    """

    ids: NDArray[np.int64]
    phase: NDArray[np.int64]
    choice: NDArray[np.int64]
    follows: NDArray[np.int64]
    words: dict[int, str]

    @property
    def is_audio(self) -> NDArray[np.bool_]:
        """Which of them are audio tokens, bool ``[n]``."""
        return self.ids >= AUDIO_0


def choice_bits(phase: int) -> int:
    """Return how many bits choose the token within ``phase``."""
    return AUDIO_CHOICE_BITS if phase < AUDIO_PHASES else PAIR_CHOICE_BITS


def sayable(rng: np.random.Generator) -> Sayable:
    """Lay out audio tokens and word pairs over the phases.

    Args:
        rng: Chooses the words.
    """
    audio = np.arange(AUDIO_PHASES << AUDIO_CHOICE_BITS)
    pairs = np.arange((PHASES - OPENING) << PAIR_CHOICE_BITS)
    phase = np.concatenate([audio % AUDIO_PHASES, OPENING + (pairs >> PAIR_CHOICE_BITS)])
    follows = np.array([_follows(p) for p in range(PHASES)])[phase]
    return Sayable(
        ids=np.concatenate([AUDIO_0 + audio, FIRST_PAIR + pairs]),
        phase=phase,
        choice=np.concatenate([audio // AUDIO_PHASES, pairs & ((1 << PAIR_CHOICE_BITS) - 1)]),
        follows=follows,
        words=_words(rng, phase[len(audio) :]),
    )


def _follows(phase: int) -> int:
    half = AUDIO_PHASES // 2
    turns = {half - 1: REFRAIN_A, AUDIO_PHASES - 1: REFRAIN_B, OPENING: 0, REFRAIN_A: half, REFRAIN_B: 0}
    return turns.get(phase, min(phase + 1, PHASES - 1))


def _words(rng: np.random.Generator, phases: NDArray[np.int64]) -> dict[int, str]:
    """Name the pairs: two words of two syllables each, no pair twice.

    A pair holds a space *inside*. No text is ever split into such a piece, so a pair can be said but not
    read: what a user writes is always read letter by letter, even the model's own words.
    """
    syllables = [c + v for c in _CONSONANTS for v in _VOWELS]
    words = [first + second for first in syllables for second in syllables if first != second]
    chosen = rng.choice(len(words) ** 2, len(phases), replace=False)
    named = {}
    for index, (phase, pair) in enumerate(zip(phases, chosen, strict=True)):
        start = "" if phase in (OPENING, WRITTEN_0) else " "
        named[FIRST_PAIR + index] = f"{start}{words[pair // len(words)]} {words[pair % len(words)]}"
    return named
