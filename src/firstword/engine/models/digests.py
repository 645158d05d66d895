"""Checksums of files, as the hub names content: SHA-256 for large files, git's SHA-1 for small ones."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from firstword.engine.models.locks import Expected

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Digest:
    """One file's size and checksums."""

    size: int
    sha256: str
    git_sha1: str


def digest(path: Path, advance: Callable[[int], None] | None = None) -> Digest:
    """Read a file once and return its checksums.

    Args:
        path: The file.
        advance: Called with the number of bytes read since its last call.
    """
    size = path.stat().st_size
    sha256 = hashlib.sha256()
    git = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    read = 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            sha256.update(block)
            git.update(block)
            read += len(block)
            if advance:
                advance(len(block))
    return Digest(read, sha256.hexdigest(), git.hexdigest())


def difference(found: Digest, expected: Expected) -> str | None:
    """Return how a file differs from what it must be, or None."""
    if found.size != expected.size:
        return f"is {found.size} bytes long instead of {expected.size}"
    if expected.sha256 is not None and found.sha256 != expected.sha256:
        return f"has sha256 {found.sha256} instead of {expected.sha256}"
    if expected.git_sha1 is not None and found.git_sha1 != expected.git_sha1:
        return f"has git sha1 {found.git_sha1} instead of {expected.git_sha1}"
    return None
