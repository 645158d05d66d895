"""Recordings and questions for engines that listen."""

import base64

from firstword.acceptance.recording import vowels

LOW = vowels(2.4, pitch=110)
HIGH = vowels(2.4, pitch=220)
LONG = vowels(8.0, pitch=140)


def heard(recording, question=None, fmt="wav"):
    """Return a user's message with a recording."""
    sound = {"type": "input_audio", "input_audio": {"data": base64.b64encode(recording).decode(), "format": fmt}}
    words = [{"type": "text", "text": question}] if question else []
    return {"role": "user", "content": [*words, sound]}
