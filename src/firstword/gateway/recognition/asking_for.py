"""The request that makes Step-Audio-2 write down, or translate, what it hears."""

import base64
from typing import Any

from firstword.acceptance.client import TRANSCRIBE
from firstword.gateway.audio.cutting import Piece

TRANSLATE = "Translate what is said in this recording into English. Write down the translation, and nothing else."
# Four times what is said in 25 s; a model that repeats itself without end is told from one that listens.
MOST_TOKENS = 600


def body(
    model: str, piece: Piece, *, translating: bool, language: str | None, prompt: str | None, temperature: float
) -> dict[str, Any]:
    """Return the request for one piece.

    Args:
        model: The model's id at its engine.
        piece: What it is to hear.
        translating: Into English, instead of as it is said.
        language: The name of the language that is spoken, or None.
        prompt: The client's own words on what to expect, or None.
        temperature: Of sampling; 0 takes the likeliest.
    """
    wish = TRANSLATE if translating else TRANSCRIBE
    if language:
        wish += f" It is spoken in {language}."
    if prompt and prompt.strip():
        wish += f" Words and names that may be said in it: {prompt.strip()}"
    sound = {"data": base64.b64encode(piece.as_wav()).decode(), "format": "wav"}
    content = [{"type": "text", "text": wish}, {"type": "input_audio", "input_audio": sound}]
    return {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "modalities": ["text"],
        "temperature": temperature,
        "max_completion_tokens": MOST_TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
