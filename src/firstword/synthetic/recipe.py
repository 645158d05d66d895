"""What decides a synthetic checkpoint's bytes, as one fingerprint."""

import hashlib
from collections.abc import Callable
from pathlib import Path

Report = Callable[[str], None]
"""Takes one line of progress."""


def fingerprint(model: str) -> str:
    """Return a SHA-256 over the sources that make ``model``: a checkpoint made by other code is stale.

    Args:
        model: The model's package in this one, as ``qwen3_tts``.
    """
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for source in sorted([*here.glob("*.py"), *(here / model).rglob("*.py")]):
        digest.update(str(source.relative_to(here)).encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()
