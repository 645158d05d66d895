"""How long a text should take to say. Standard library only.

The estimate is coarse on purpose: it must hold for every voice and language a model has, and still
tell speech from a cut answer or from a model that never stops. The window is four times wide.
"""

import unicodedata
from dataclasses import dataclass

SECONDS_PER_LETTER = 1 / 15  # Latin, Cyrillic, Greek, ...: 150 to 180 words a minute, spaces counted
SECONDS_PER_IDEOGRAPH = 1 / 4.5
SECONDS_PER_HANGUL = 1 / 6
SECONDS_PER_KANA = 1 / 7.5
SECONDS_PER_DIGIT = 0.33  # "2026" is said in about as long as four short words
SECONDS_PER_SYMBOL = 0.4  # "%", "$", "+": one word each
SENTENCE_PAUSE = 0.3
CLAUSE_PAUSE = 0.15
EDGES = 0.3  # lead-in and decay, in every answer
SHORTEST = 0.8  # one word, said alone, is drawn out

_SENTENCE_ENDS = frozenset(".!?…。！？")  # noqa: RUF001 - full-width marks are meant
_CLAUSE_ENDS = frozenset(",;:、，；：")  # noqa: RUF001
_LOWER, _UPPER = 0.5, 2.0


@dataclass(frozen=True)
class Window:
    """Bounds of a plausible duration, in seconds."""

    lower: float
    upper: float


def expected_seconds(text: str) -> float:
    """Return how long ``text`` takes to say at an ordinary pace, in seconds."""
    said = " ".join(text.split())
    spoken = said.rstrip("".join(_SENTENCE_ENDS | _CLAUSE_ENDS) + " ")
    seconds = sum(_seconds_of(character) for character in spoken)
    return max(SHORTEST, EDGES + seconds)


def window(text: str | None, *, speed: float = 1.0) -> Window:
    """Return the plausible duration of ``text``, at most four times wide.

    Args:
        text: What is to be said; None when it is not known (a spoken answer), which leaves only
            the bounds that any answer must keep.
        speed: The request's speed; 2.0 halves the duration.
    """
    if text is None:
        return Window(0.3, 120.0)
    seconds = expected_seconds(text) / speed
    return Window(seconds * _LOWER, seconds * _UPPER)


def _seconds_of(character: str) -> float:
    category = unicodedata.category(character)
    seconds = 0.0
    if character in _SENTENCE_ENDS:
        seconds = SENTENCE_PAUSE
    elif character in _CLAUSE_ENDS:
        seconds = CLAUSE_PAUSE
    elif category == "Nd":
        seconds = SECONDS_PER_DIGIT
    elif category[0] == "L":
        seconds = _seconds_of_letter(character)
    elif category == "Zs":
        seconds = SECONDS_PER_LETTER
    elif category[0] == "S":
        seconds = SECONDS_PER_SYMBOL
    return seconds


def _seconds_of_letter(character: str) -> float:
    script = unicodedata.name(character, "").partition(" ")[0]
    return {
        "CJK": SECONDS_PER_IDEOGRAPH,
        "HANGUL": SECONDS_PER_HANGUL,
        "HIRAGANA": SECONDS_PER_KANA,
        "KATAKANA": SECONDS_PER_KANA,
    }.get(script, SECONDS_PER_LETTER)
