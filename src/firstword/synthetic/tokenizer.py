"""A byte-level BPE tokenizer of the Qwen2 kind: 256 byte symbols, chosen words and pairs, special tokens."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Tokenizer:
    """What a token id stands for.

    Attributes:
        pieces: The bytes of every ordinary token, by id.
        specials: Ids of the special tokens, by their text; they follow the ordinary ones.
    """

    pieces: tuple[bytes, ...]
    specials: dict[str, int]

    @property
    def size(self) -> int:
        """Return the number of tokens."""
        return len(self.pieces) + len(self.specials)


def write(
    folder: Path, words: Sequence[str], pairs: Sequence[bytes], specials: Sequence[str], *, eos: str, pad: str
) -> Tokenizer:
    """Write ``vocab.json``, ``merges.txt`` and ``tokenizer_config.json``.

    Args:
        folder: Where to write.
        words: ASCII words that become one token each; their beginnings become tokens too.
        pairs: Two bytes each that become one token.
        specials: The special tokens, in the order of their ids.
        eos: The special token that ends a turn.
        pad: The special token for padding.
    """
    symbols = _byte_symbols()
    pieces = [bytes([value]) for value in sorted(range(256), key=symbols.__getitem__)]
    parts = [word[:end].encode() for word in words for end in range(2, len(word) + 1)]
    pieces += dict.fromkeys([*parts, *pairs])  # words first: what comes first is merged first
    written = ["".join(symbols[value] for value in piece) for piece in pieces]
    vocab = {text: number for number, text in enumerate(written)}
    merges = [f"{text[:-1]} {text[-1]}" for text in written[256:]]
    ids = {text: len(pieces) + number for number, text in enumerate(specials)}
    settings = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(number): {
                "content": text,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for text, number in ids.items()
        },
        "additional_special_tokens": list(specials),
        "bos_token": None,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": eos,
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": pad,
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text("".join(f"{line}\n" for line in ["#version: 0.2", *merges]), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return Tokenizer(tuple(pieces), ids)


def _byte_symbols() -> dict[int, str]:
    """Return the printable character that stands for each byte in byte-level BPE vocabularies."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in printable]
    return {value: chr(value) for value in printable} | {value: chr(256 + n) for n, value in enumerate(others)}
