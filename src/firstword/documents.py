"""Read JSON that others wrote: whatever lies there, the answer comes, and every fault is one kind of error.

Standard library only.
"""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

FORBIDDEN = f"cannot be read ({os.strerror(errno.EACCES)})"


def state(path: Path) -> str | None:
    """Return why nothing can be read at ``path``, as the rest of a sentence; None for a file that is not empty."""
    try:
        found = path.stat()
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            return f"cannot be read ({error.strerror})"
        return "is a link to nothing" if path.is_symlink() else "is missing"
    if stat.S_ISDIR(found.st_mode):
        return "is a folder"
    if not stat.S_ISREG(found.st_mode):  # reading a pipe would wait for ever
        return "is no regular file"
    if not os.access(path, os.R_OK, effective_ids=True):
        return FORBIDDEN
    return None if found.st_size else "is empty"


def is_readable(path: Path) -> bool:
    """Return whether a file that can be read lies at ``path``; ``Path.is_file`` raises where it may not look."""
    return state(path) in (None, "is empty")


def read_json(path: Path) -> Any:
    """Return what a JSON file holds.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no regular file, or not JSON.
    """
    path.stat()  # missing, or a link to nothing: FileNotFoundError
    fault = state(path)
    if fault == FORBIDDEN:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    if fault:
        raise ValueError(f"it {fault}")
    return parse_json(path.read_bytes())


def parse_json(text: bytes | str) -> Any:
    """Return the value that ``text`` is the JSON of.

    Raises:
        ValueError: It is not JSON, or is nested deeper than Python's parser goes.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
