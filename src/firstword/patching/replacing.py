"""Replace several files, all or none."""

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from firstword.errors import Exit, FirstwordError


def replace_all(contents: Mapping[Path, bytes]) -> None:
    """Give files new contents in the mapping's order: all of them, or none.

    Everything is written beside its target first, the old files too, so that a full disk or a
    read-only folder shows before anything changed; then each new file is renamed into place, so
    that a reader sees the old file or the new one. Renaming also breaks hard links, with which
    installers share files between environments. A failure half way renames the old files back.
    Only the end of the process itself can leave some files new and some old; each is still one of
    the two.

    Raises:
        FirstwordError: A file cannot be written. Nothing is changed.
    """
    new: dict[Path, Path] = {}
    old: dict[Path, Path] = {}
    done: list[Path] = []
    try:
        for path, data in contents.items():
            new[path] = _beside(path, "new")
            _write(new[path], data, like=path)
            if path.exists():
                old[path] = _beside(path, "old")
                _write(old[path], path.read_bytes(), like=path)
        try:
            for path in contents:
                _drop_bytecode(path)
                done.append(path)
                os.replace(new[path], path)  # noqa: PTH105 - the tests make this call fail
        except BaseException:
            for path in done:
                if path in old:
                    old[path].replace(path)
                else:
                    path.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FirstwordError(
            f"cannot write {error.filename or 'the patched files'}: {error.strerror}; nothing was changed",
            mend="free space, or run it as the owner of the environment",
            code=Exit.PATCHES,
        ) from error
    finally:
        for temporary in (*new.values(), *old.values()):
            temporary.unlink(missing_ok=True)


def _beside(path: Path, word: str) -> Path:
    return path.with_name(f".{path.name}.firstword-{word}-{os.getpid()}")


def _write(temporary: Path, data: bytes, *, like: Path) -> None:
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(FileNotFoundError):  # a new file gets the process's usual mode
        shutil.copymode(like, temporary)


def _drop_bytecode(path: Path) -> None:
    # Images are compiled with unchecked-hash bytecode, which Python would go on using.
    if path.suffix == ".py":
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
