"""What a synthetic checkpoint says of itself: the SHA-256 of each of its files, from when it was made."""

import re
from pathlib import Path

from firstword import documents
from firstword.engine.models.digests import digest
from firstword.engine.models.locks import is_safe
from firstword.errors import Exit, FirstwordError

# Written by firstword.synthetic.command.
MARK = "firstword-synthetic.json"


def checksums(folder: Path) -> dict[str, str] | None:
    """Return SHA-256 by path for a synthetic checkpoint, None for a folder that is none.

    Raises:
        FirstwordError: The list is damaged.
        OSError: It may not be read.
    """
    file = folder / MARK
    try:
        data = documents.read_json(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise _damaged(folder, str(error)) from error
    files = data.get("files") if isinstance(data, dict) else None
    if not isinstance(files, dict) or not files or not all(_is_one(path, known) for path, known in files.items()):
        raise _damaged(folder, "it holds no list of files")
    return files


def _is_one(path: object, known: object) -> bool:
    return isinstance(path, str) and is_safe(path) and bool(re.fullmatch(r"[0-9a-f]{64}", str(known)))


def _damaged(folder: Path, why: str) -> FirstwordError:
    return FirstwordError(
        f"{folder / MARK} is damaged: {why}", mend=f"remove {folder}, then: {_mend(folder)}", code=Exit.CHECKSUM
    )


def is_made(folder: Path) -> bool:
    """Return whether a folder says that it is a synthetic checkpoint."""
    return documents.is_readable(folder / MARK)


def require_unchanged(folder: Path) -> None:
    """Read every byte of a synthetic checkpoint and refuse one that is not as it was made.

    Raises:
        FirstwordError: A file is gone or another one; all are named.
    """
    differing = [
        f"{path} {state or 'has another SHA-256'}"
        for path, known in (checksums(folder) or {}).items()
        if (state := documents.state(folder / path)) not in (None, "is empty") or digest(folder / path).sha256 != known
    ]
    if differing:
        raise FirstwordError(
            f"{folder} is not as it was made: {'; '.join(differing)}", mend=_mend(folder), code=Exit.CHECKSUM
        )


def _mend(folder: Path) -> str:
    try:
        name = documents.read_json(folder / MARK)["name"]
    except (OSError, ValueError, TypeError, KeyError):
        name = folder.name
    return f"firstword synthetic {name} {folder}"
