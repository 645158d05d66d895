"""A folder for what lives no longer than one engine: sockets between its processes, temporary files."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from firstword.errors import Exit, FirstwordError

PREFIX = "firstword-engine-"
_OWNER = ".owner"


@contextmanager
def scratch() -> Iterator[Path]:
    """Make the folder, and remove it at the end; those of supervisors that were killed go first.

    Raises:
        FirstwordError: There is no place for one.
    """
    try:
        _sweep()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        owner = (folder / _OWNER).open("w")
    except OSError as error:
        raise FirstwordError(
            f"no folder for temporary files can be made ({error.strerror or error})",
            mend="set TMPDIR to a folder that can be written and has room",
            code=Exit.DISK_FULL,
        ) from error
    with owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _sweep() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            owner = (folder / _OWNER).open("r+")
        except OSError:  # another user's, or just being made
            continue
        with owner:
            if _free(owner):
                shutil.rmtree(folder, ignore_errors=True)


def _free(owner: IO[str]) -> bool:
    # Process ids say nothing here: a container's are its own, and its /tmp may be another's too.
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def alone(file: Path, what: str) -> Iterator[None]:
    """Hold a lock that ends with this process.

    Args:
        file: Where; removed at the end.
        what: What another that holds it does, for the message.

    Raises:
        FirstwordError: Another holds it, or it cannot be made.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        held = file.open("w")
    except OSError as error:
        raise FirstwordError(
            f"{file.parent} cannot be written ({error.strerror})",
            mend="set FIRSTWORD_HOME, or FIRSTWORD_RUN_DIR, to a folder that can be",
            code=Exit.ENVIRONMENT,
        ) from error
    with held:
        if not _free(held):
            raise FirstwordError(
                f"another firstword {what}", mend="stop it, or choose another --port", code=Exit.PORT_IN_USE
            )
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
