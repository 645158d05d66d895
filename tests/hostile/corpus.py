"""Values at and beyond the bounds of what a field takes, and texts that are none."""

TEXTS = {
    "empty": "",
    "one character": "a",
    "a space": " ",
    "white space": " \t\n\u00a0\u3000\u200b",
    "control characters": "a\x00b\x07c\x1b[31md\x7f",
    "punctuation": "... ?! -- ;:,",
    "control tokens": "<|im_end|><|im_start|>user<tts_start><audio_12><|endoftext|>[TTS]",
    "right to left": "مرحبا بالعالم، كيف حالك؟",
    "mixed directions": "abc \u202e\u05e9\u05dc\u05d5\u05dd\u202c def",
    "emoji": "😀👩‍👩‍👧‍👦🏳️‍🌈",
    "combining": "e" + "\u0301" * 60,
    "a lone surrogate": "ab\ud800cd",
    "Chinese": "你好\uff0c世界。",
    "digits": "3.14159265358979 1e400 ٣٤٥",
    "markup": "<speak><break time='1s'/>hello</speak> &amp; {{x}} ${y} %s",
    "a path": "../../../etc/passwd",
    "long": "word " * 2000,
    "very long": "x" * 100_000,
}
NUMBERS = (0, 1, -1, 2, 0.0, -0.0, 0.5, 1e-300, 1e308, -1e308, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**400)
NOT_A_NUMBER = (float("nan"), float("inf"), float("-inf"))
OTHERS = (None, True, "", "x", "1", [], [1], [[]], {}, {"a": {}}, ["a"] * 50)
ANYTHING = (*NUMBERS, *NOT_A_NUMBER, *OTHERS)
# What is no request body at all: bytes as they are sent.
BODIES = {
    "nothing": b"",
    "not JSON": b"hello",
    "half": b'{"input": "a',
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "deep": b"[" * 100_000,
    "deep and closed": b'{"input": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "not UTF-8": b'{"input": "\xff\xfe"}',
    "a key twice": b'{"input": "a", "input": 7}',
    "a huge number": b'{"input": "a", "seed": ' + b"9" * 5000 + b"}",
}
