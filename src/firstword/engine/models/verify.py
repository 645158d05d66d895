"""Compare a downloaded checkpoint folder with what it must be."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from firstword.engine.models.digests import Digest, difference, digest
from firstword.engine.models.locks import Expected, Lock
from firstword.engine.models.record import Record
from firstword.errors import Exit, FirstwordError


@dataclass
class State:
    """How a folder compares.

    Attributes:
        missing: Files that are not there.
        damaged: How each file that differs does so, by path.
        unexpected: Files that do not belong there; Python among them could run.
        read: Files whose bytes were read for this.
    """

    missing: list[Expected] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)
    unexpected: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the checkpoint can be used."""
        return not (self.missing or self.damaged or self.unexpected)


def expected(lock: Lock, record: Record) -> dict[str, Expected] | None:
    """Return every file of the checkpoint; None while an incomplete lock lacks the hub's listing.

    A checksum in the lock comes first, then the one recorded when the file was first verified, then the hub's.
    """
    if lock.complete:
        return lock.files
    if record.listing is None:
        return None
    files = dict(record.listing)
    for path, sha256 in record.verified.items():
        if path in files:
            files[path] = replace(files[path], sha256=sha256)
    return files | {path: file for path, file in lock.files.items() if file.sha256 is not None}


def check(
    folder: Path,
    files: dict[str, Expected],
    record: Record,
    *,
    full: bool = False,
    advance: Callable[[int], None] | None = None,
) -> State:
    """Return how ``folder`` compares with ``files``, and bring ``record`` up to date (unsaved).

    Args:
        folder: The checkpoint.
        files: From `expected`.
        record: A file that it knows as verified is not read again.
        full: Read every file, whatever the record says.
        advance: Called with the number of bytes read since its last call.
    """
    state = State(unexpected=strangers(folder, files))
    to_read: list[Expected] = []
    for file in files.values():
        path = folder / file.path
        if not path.is_file():
            state.missing.append(file)
        elif path.stat().st_size != file.size:
            state.damaged[file.path] = f"is {path.stat().st_size} bytes long instead of {file.size}"
        elif full or not (record.is_unchanged(file.path) and file.sha256 in (None, record.verified[file.path])):
            to_read.append(file)

    def read(file: Expected) -> Digest:
        return digest(folder / file.path, advance)

    with ThreadPoolExecutor(max_workers=4) as pool:
        for file, found in zip(to_read, pool.map(read, to_read), strict=True):
            state.read.append(file.path)
            fault = difference(found, file)
            if fault:
                state.damaged[file.path] = fault
            else:
                record.set_verified(file.path, found.sha256)
    return state


def strangers(folder: Path, files: dict[str, Expected]) -> list[str]:
    """Return the files of ``folder`` that are not in ``files``; hidden ones are firstword's own."""
    if not folder.is_dir():
        return []
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(p.as_posix() for p in found if p.as_posix() not in files and not p.parts[0].startswith("."))


def require_whole(name: str, folder: Path, state: State) -> None:
    """Refuse a checkpoint that is not what its lock says.

    Raises:
        FirstwordError: A file differs, does not belong there, or is missing.
    """
    if state.damaged:
        faults = "; ".join(f"{path} {fault}" for path, fault in sorted(state.damaged.items()))
        raise FirstwordError(
            f"{name} in {folder} is not what was published: {faults}",
            mend=f"firstword models download {name} --repair",
            code=Exit.CHECKSUM,
        )
    if state.unexpected:
        raise FirstwordError(
            f"{name} in {folder} holds files that do not belong to it: {', '.join(state.unexpected)}",
            mend="remove them; Python and weights that lie there would be used",
            code=Exit.CHECKSUM,
        )
    if state.missing:
        raise FirstwordError(
            f"{name} in {folder} lacks {listed(state.missing)}",
            mend=f"firstword models download {name}",
            code=Exit.CHECKPOINT_INCOMPLETE,
        )


def listed(files: list[Expected]) -> str:
    """Return missing files as text: the first few by name, and how many bytes in all."""
    shown = ", ".join(file.path for file in files[:5])
    more = f" and {len(files) - 5} more" if len(files) > 5 else ""
    return f"{shown}{more} ({sum(file.size for file in files) / 1e9:.2f} GB)"
