r"""A byte-level BPE tokenizer with Step-Audio-2's special tokens at their published ids.

There are no merges: text is read byte by byte. Only a role's name alone between two marks
(``<|im_start|>user\n``) is one token, because ``ignore_merges`` takes a piece that stands whole in the
vocabulary before it looks for merges. That is how the language model can tell whose turn it is. (It
errs where a text starts a line, or follows a run of punctuation, with just such a word in small letters.)
"""

import json
from pathlib import Path

from firstword.synthetic.step_audio_2 import vocabulary

# Turns as vLLM-Omni's speech endpoint writes them. The model's own <|BOT|>human is understood as well.
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% elif 'audio' in part['type'] %}<audio_start><audio_patch><audio_end>{% endif %}"
    "{% endfor %}{% endif %}"
    "{% if not (loop.last and message['role'] == 'assistant') %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# How Qwen2 cuts text into pieces before BPE.
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPACE = "\u0120"  # how byte-level BPE writes a space


def byte_characters() -> list[str]:
    """Return the character that stands for each byte in a byte-level vocabulary, by byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    characters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [characters[byte] for byte in range(256)]


def write(folder: Path, said: vocabulary.Sayable) -> None:
    """Write tokenizer.json and tokenizer_config.json into ``folder``."""
    written: dict[str, object] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": PIECES}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
            ],
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": _vocabulary(said),
            "merges": [],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|EOT|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 16384,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")


def _vocabulary(said: vocabulary.Sayable) -> dict[str, int]:
    named = {character: byte for byte, character in enumerate(byte_characters())}
    named |= vocabulary.ROLES
    named |= {text.replace(" ", SPACE): token for token, text in said.words.items()}
    taken = set(named.values())
    # Every other id below the special ones gets a name too: the tokenizers library prints each hole,
    # more than a megabyte, whenever a tokenizer is copied to another process. A space inside keeps
    # them from ever being read.
    named |= {f"~{SPACE}{token:x}": token for token in range(vocabulary.AUDIO_0) if token not in taken}
    specials = {token: text for text, token in vocabulary.SPECIAL.items()}
    named = {specials.get(token, text): token for text, token in named.items()}
    return named | {f"<audio_{code}>": vocabulary.AUDIO_0 + code for code in range(vocabulary.AUDIO_IDS)}


def _added_tokens() -> list[dict[str, object]]:
    """List the tokens that are found in text as they stand.

    The audio tokens are not *special*: a decoded answer shows them, and serving code that forwards such
    text must take them out itself.
    """
    shown = {f"<audio_{code}>": vocabulary.AUDIO_0 + code for code in range(vocabulary.AUDIO_IDS)}
    return [
        {
            "id": token,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": text in vocabulary.SPECIAL,
        }
        for text, token in (vocabulary.SPECIAL | shown).items()
    ]
