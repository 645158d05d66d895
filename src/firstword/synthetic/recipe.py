"""What decides a synthetic checkpoint's bytes, as one fingerprint."""

import hashlib
from collections.abc import Callable
from pathlib import Path

Report = Callable[[str], None]
"""Takes one line of progress."""


def fingerprint() -> str:
    """Return a SHA-256 over this package's sources: a checkpoint made by other code is stale."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for source in sorted(here.rglob("*.py")):
        digest.update(str(source.relative_to(here)).encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()
