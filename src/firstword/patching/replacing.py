"""Replace several files, all or none."""

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from firstword.errors import Exit, FirstwordError


def replace_all(contents: Mapping[Path, bytes]) -> None:
    """Give files new contents in the mapping's order: all of them, or none.

    Everything is written beside its target first, so that a full disk or a read-only folder shows
    before anything changed; then each is renamed into place, so that a reader sees the old file or
    the new one. Renaming also breaks hard links, with which installers share files between
    environments. A failure half way puts back what was renamed. Only the end of the process itself
    can leave some files new and some old; each is still one of the two.

    Raises:
        FirstwordError: A file cannot be written. Nothing is changed.
    """
    staged: dict[Path, Path] = {}
    originals: dict[Path, bytes | None] = {}
    try:
        for path, data in contents.items():
            originals[path] = path.read_bytes() if path.exists() else None
            staged[path] = _stage(path, data)
        done: list[Path] = []
        try:
            for path, temporary in staged.items():
                _drop_bytecode(path)
                os.replace(temporary, path)  # noqa: PTH105 - the tests fail this call on purpose
                done.append(path)
        except BaseException:
            for path in reversed(done):
                original = originals[path]
                if original is None:
                    path.unlink()
                else:
                    _stage(path, original).replace(path)
            raise
    except OSError as error:
        raise FirstwordError(
            f"cannot write {error.filename}: {error.strerror}; nothing was changed",
            mend="free space, or run it as the owner of the environment",
            code=Exit.PATCHES,
        ) from error
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


def _stage(path: Path, data: bytes) -> Path:
    temporary = path.with_name(f".{path.name}.firstword-{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        else:
            temporary.chmod(stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _drop_bytecode(path: Path) -> None:
    # Images are compiled with unchecked-hash bytecode, which Python would go on using.
    if path.suffix == ".py":
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
