"""How many codec frames (80 ms) each piece of text takes to say.

The pace of ordinary speech: about 14 letters, 4.5 Chinese characters, 7 kana, 6 Hangul syllables or 3
digits a second. Whole eighths, so that sums are exact.
"""

from firstword.synthetic.qwen3_tts.layout import BOS, THINK_BOS

LETTER = 0.875
DIGIT = 3.5
SENTENCE_END = 3.0
CLAUSE_END = 1.75
SYMBOL = 4.0
SILENT = 0.25  # brackets, quotes, control characters

EDGES = 5.0  # lead-in and decay of every utterance
# A cloned voice says at least this share of reference text and text together, whatever the reference's length.
LEAST_SHARE = 0.1875
# Sums are whole eighths (frames) and 1/128 (their least share); half a step keeps them off zero.
HALF_STEP, HALF_LEAST_STEP = 1 / 16, 1 / 256

# Codec tokens that stand once in every prompt and carry these: (frames, least).
ONCE = {BOS: (EDGES, EDGES), THINK_BOS: (HALF_STEP, HALF_LEAST_STEP)}


def frames_of(piece: bytes) -> float:
    """Return the frames that ``piece`` takes to say."""
    return sum(_frames_of_byte(value) for value in piece)


def _frames_of_byte(value: int) -> float:
    if value >= 0x80:
        return _frames_of_utf8_byte(value)
    character = chr(value)
    frames = LETTER  # letters, spaces
    if character.isdigit():
        frames = DIGIT
    elif character in ".!?":
        frames = SENTENCE_END
    elif character in ",;:":
        frames = CLAUSE_END
    elif character in "%$+=<>|~^":
        frames = SYMBOL
    elif not character.isalpha() and character != " ":
        frames = SILENT
    return frames


def _frames_of_utf8_byte(value: int) -> float:
    """Return the frames of a character's first byte by its script; its other bytes take none."""
    scripts = (
        (0xC0, 0.0),  # a continuation byte
        (0xE0, LETTER),  # two-byte scripts: accented Latin, Greek, Cyrillic, Arabic, ...
        (0xE3, LETTER),  # Devanagari, Thai, typographic marks
        (0xE4, 1.75),  # kana, CJK marks
        (0xEA, 2.75),  # Chinese characters
        (0xEE, 2.125),  # Hangul
        (0xF0, 1.75),  # full-width forms
    )
    return next((frames for end, frames in scripts if value < end), SYMBOL)
