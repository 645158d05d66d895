"""Sizes of the synthetic Qwen3-TTS, and what each channel of the talker's residual stream means.

The talker must do what a trained one does: say each text in a natural time, then end. So a part of its
residual stream keeps accounts, and the rest carries content:

- every text token holds the number of codec frames that it takes to say (`pace.frames_of`), every codec
  frame holds minus one; an attention head averages them over all positions that carry a codec token.
  While the sum is positive there is something left to say;
- three heads of the second layer turn the sums' signs into 0 or 1. Query and key norms make that exact:
  a query that holds one channel keeps only its sign;
- the end token's row of the codec head reads those three, and lies far above or far below every code.

Values are small integers and fractions of powers of two, weights are signed powers of two: sums are
exact in any order, so that a request gives the same codes alone and in a batch.
"""

from itertools import product

HIDDEN = 64
TEXT_HIDDEN = 128
LAYERS = 2
HEADS = 8
KV_HEADS = 2
HEAD_DIM = 32  # the smallest that vLLM's CPU attention kernel takes
INTERMEDIATE = 128
GROUPS = 16  # codebooks a frame, as published
CODES = 2048  # codes a codebook, as published
VOCABULARY = 3072  # codec vocabulary, as published

PREDICTOR_HEADS = 4
PREDICTOR_LAYERS = 1

# Channels of the talker's residual stream.
CONSTANT = 0  # the same large value everywhere: RMS norms become a fixed scale
FRAMES = 1  # frames to say, less frames said
LEAST = 2  # the least share of the frames to say, less frames generated (reference frames don't count)
COMPLETE = 3  # +1 where the text begins, -2 where it ends
CODEC = 4  # 1 on every codec token
BEGIN = 5  # 1 where the text begins
SPEAKER = 6  # 1 on the speaker's position
SUM_FRAMES, SUM_LEAST, SUM_COMPLETE = 7, 8, 9  # averages of the first three, negative when done
OPEN_FRAMES, OPEN_LEAST, OPEN_COMPLETE = 10, 11, 12  # 1 while not done, else 0
TEXT = 13  # 1 on every piece of text, special tokens left out
CONTENT = 16  # this channel and all after it
CONTENT_SIZE = HIDDEN - CONTENT

CONSTANT_VALUE = 1024.0
SCALE = CONSTANT_VALUE / HIDDEN**0.5  # what an RMS norm divides by
NORMED_CONSTANT = 8.0  # CONSTANT after a norm with weight one

# Codes of the first codebook from here on come from reference audio; the talker itself says lower ones.
FIRST_REFERENCE_CODE = 1024

PAD, BOS, EOS = 2148, 2149, 2150
THINK, NOTHINK, THINK_BOS, THINK_EOS = 2154, 2155, 2156, 2157
SPEAKERS = {
    "serena": 3066,
    "vivian": 3065,
    "uncle_fu": 3010,
    "ryan": 3061,
    "aiden": 2861,
    "ono_anna": 2873,
    "sohee": 2864,
    "eric": 2875,
    "dylan": 2878,
}
DIALECTS = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}
LANGUAGES = {
    "chinese": 2055,
    "english": 2050,
    "german": 2053,
    "italian": 2070,
    "portuguese": 2071,
    "spanish": 2054,
    "japanese": 2058,
    "korean": 2064,
    "french": 2061,
    "russian": 2069,
    "beijing_dialect": 2074,
    "sichuan_dialect": 2062,
}

WORDS = ("assistant", "user")  # the prompt's layout counts on these being one token each
# Text comes at one token a frame when it is streamed: two letters a token keep it ahead of the voice.
_LOWER = range(0x61, 0x7B)
PAIRS = tuple(
    bytes(pair)
    for firsts, seconds in (
        ((0x20, *range(0x41, 0x5B), *_LOWER), _LOWER),  # a space or a letter, then a small letter
        ((0x20,), range(0x41, 0x5B)),
        (range(0xC2, 0xF0), range(0x80, 0xC0)),  # the first two bytes of a UTF-8 character
    )
    for pair in product(firsts, seconds)
)
END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TTS_PAD, TTS_BOS, TTS_EOS = "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>"
SPECIALS = (
    END_OF_TEXT,
    TURN_START,
    TURN_END,
    "<|audio_start|>",
    "<|audio_end|>",
    TTS_PAD,
    TTS_BOS,
    TTS_EOS,
    "<tts_text_bos_single>",
    "<|audio_pad|>",
)
