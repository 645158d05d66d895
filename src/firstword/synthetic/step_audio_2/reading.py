"""How long each byte of a text takes to say, in units of the language model's budget: 75 are a second.

One letter is worth `LETTER`; an audio token costs `AUDIO_TOKEN`. At 25 audio tokens a second that is 15
letters a second, and 5 ideographs a second, because each of their three bytes counts as a letter.
"""

LETTER = 5.0
AUDIO_TOKEN = 3.0  # 5 / 3 tokens a letter

_SENTENCE, _CLAUSE, _DIGIT, _SYMBOL = 22.0, 11.0, 25.0, 30.0  # 0.3, 0.15, 0.33 and 0.4 seconds
_SILENT = frozenset(b"\r\n\t\"'()[]{}<>-_/\\|`~*#")


def weight(byte: int) -> float:
    """Return what one byte of UTF-8 adds to the length of speech."""
    character = bytes([byte])
    weights = {
        b".": _SENTENCE,
        b"!": _SENTENCE,
        b"?": _SENTENCE,
        b",": _CLAUSE,
        b";": _CLAUSE,
        b":": _CLAUSE,
        b"%": _SYMBOL,
        b"&": _SYMBOL,
        b"$": _SYMBOL,
        b"+": _SYMBOL,
        b"=": _SYMBOL,
        b"@": _SYMBOL,
        # Leading bytes. Those that follow them (0x80 to 0xbf) each count as a letter, so that these
        # set what the whole character is worth.
        b"\xe0": -LETTER,  # Indic scripts, Thai: one letter in all
        b"\xe2": -2 * LETTER,  # quotation marks and dashes: nothing
        b"\xe3": 0.0,  # kana: two letters
    }
    if character in weights:
        return weights[character]
    if character.isdigit():
        return _DIGIT
    if 0xC0 <= byte < 0xE0 or byte in _SILENT or (byte < 0x20):
        return 0.0
    return LETTER
