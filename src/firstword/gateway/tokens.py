"""Control tokens in a model's text: what a client must not see of them."""

import re

_TOKEN = re.compile(r"<audio_\d+>|<\|[A-Za-z0-9_]{1,40}\|>|</?(?:tts|audio)_(?:start|end|patch|pad)>")
# The longest of them is shorter; what may be the beginning of one is held back.
_BEGINNING = re.compile(r"<[|/]?[A-Za-z0-9_|]{0,44}$")


def without_control_tokens(text: str) -> tuple[str, str]:
    """Return ``text`` without control tokens, and its end where that may be the beginning of one."""
    text = _TOKEN.sub("", text)
    beginning = _BEGINNING.search(text)
    if beginning is None:
        return text, ""
    return text[: beginning.start()], text[beginning.start() :]
