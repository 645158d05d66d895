"""Bring a published model to this machine, and keep only what was verified.

A checkpoint lies in a folder of its own, ``models/<name>/`` in firstword's home, as plain files: one volume to mount
into a container, nothing that an engine could resolve to another revision, and no second copy. Files that the user's
Hugging Face cache holds at the revision are linked (or copied, on another disk) instead of downloaded.

A file is transferred under ``.partial/`` in that folder, read once more, compared, and only then renamed to its place;
so an interrupted download leaves nothing that counts as complete, and the next one goes on where it stopped.
"""

import contextlib
import errno
import fcntl
import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from firstword.engine.models import hub, verify
from firstword.engine.models.digests import difference, digest
from firstword.engine.models.locks import Expected, Lock
from firstword.engine.models.progress import Progress, Report, Stopped
from firstword.engine.models.record import NAME as RECORD
from firstword.engine.models.record import Record
from firstword.errors import Exit, FirstwordError

_PARTIAL = ".partial"
_SPARE = 256 * 1024**2
_TRANSFERS = 4


def download(lock: Lock, folder: Path, *, report: Report, repair: bool = False) -> None:
    """Make ``folder`` hold the whole model.

    Args:
        lock: The model.
        folder: Where; made if need be. What is there and right stays.
        report: Takes lines of progress.
        repair: Replace files that differ; otherwise they are an error.

    Raises:
        FirstwordError: Files differ, the hub fails or disagrees with the lock, the disk is too small, or the folder
            cannot be written to.
    """
    try:
        _make(folder)
        with _alone(folder, report), hub.quiet():
            begun = any(folder.iterdir())
            try:
                _complete(lock, folder, report, repair=repair)
            except BaseException:
                if not begun:
                    _remove_unused(folder)
                raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise FirstwordError(
            f"{lock.name}: cannot write to {error.filename or folder}: {error.strerror or error}",
            mend="free space there, then run the same command"
            if full
            else "make it writable, or set FIRSTWORD_HOME to a folder elsewhere",
            code=Exit.DISK_FULL if full else Exit.DOWNLOAD,
        ) from error


def _make(folder: Path) -> None:
    if not folder.is_dir() and (folder.exists() or folder.is_symlink()):
        raise FirstwordError(
            f"{folder} is a {'file' if folder.exists() else 'link to nothing'}, and a model's folder belongs there",
            mend=f"rm {folder}, then run the same command",
            code=Exit.DOWNLOAD,
        )
    folder.mkdir(parents=True, exist_ok=True)


def _remove_unused(folder: Path) -> None:
    """Remove what a download that brought nothing has made: a folder without a model is no damaged model."""
    with contextlib.suppress(OSError):
        files = [path for path in folder.rglob("*") if not path.is_dir()]
        if all(path.name == RECORD or path.stat().st_size == 0 for path in files):
            shutil.rmtree(folder)


def _complete(lock: Lock, folder: Path, report: Report, *, repair: bool) -> None:
    record = Record.load(folder, lock)
    files = verify.expected(lock, record)
    if files is None or not all((folder / path).is_file() for path in files):
        report(f"asking {hub.shown()} for {lock.repository} at {lock.revision[:12]}")
        listed = hub.listing(lock)
        if record.listing not in (None, listed):
            _refuse_change(lock, record.listing or {}, listed)
        record.listing = listed
        files = verify.expected(lock, record)
    assert files is not None
    state = verify.check(folder, files, record)
    wanted = list(state.missing)
    if repair:
        wanted += [files[path] for path in state.damaged]
        state.damaged.clear()
    record.save()
    state.missing.clear()
    verify.require_whole(lock.name, folder, state)
    if wanted:
        _bring(lock, folder, wanted, record, report)
    shutil.rmtree(folder / _PARTIAL, ignore_errors=True)


def _refuse_change(lock: Lock, before: dict[str, Expected], now: dict[str, Expected]) -> None:
    changed = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
    raise FirstwordError(
        f"{hub.shown()} lists other files of {lock.repository} at {lock.revision[:12]} than at the first download: "
        + ", ".join(changed),
        mend="unset HF_ENDPOINT; a commit does not change, so one of the two answers was false",
        code=Exit.CHECKSUM,
    )


def _bring(lock: Lock, folder: Path, wanted: list[Expected], record: Record, report: Report) -> None:
    partial = folder / _PARTIAL
    partial.mkdir(exist_ok=True)
    parts = {file.path: partial / _part_name(file) for file in wanted}
    for stale in set(partial.iterdir()) - set(parts.values()):
        stale.unlink()
    held = sum(part.stat().st_size for part in parts.values() if part.exists())
    total = sum(file.size for file in wanted)
    _require_space(lock, folder, total - held)
    report(f"downloading {len(wanted)} files of {lock.name}, {(total - held) / 1e9:.2f} GB, into {folder}")
    progress = Progress(lock.name, total, held, report)
    saving = threading.Lock()

    def bring(file: Expected) -> None:
        part = parts[file.path]
        sha256 = _from_cache(lock, file, part, progress) or _transfer(lock, file, part, progress)
        final = folder / file.path
        final.parent.mkdir(parents=True, exist_ok=True)
        with part.open("rb") as stream:
            os.fsync(stream.fileno())  # the record must not outlive the content in a power cut
        part.replace(final)
        with saving:
            record.set_verified(file.path, sha256)
            record.save()

    try:
        _in_parallel(bring, wanted, progress)
    finally:
        progress.close()
    in_lock = {path for path, file in lock.files.items() if file.sha256 is not None}
    unknown = {file.path for file in wanted} - in_lock
    if unknown:
        report(f"no checksum in the lock, checked against the hub and recorded: {', '.join(sorted(unknown))}")


def _transfer(lock: Lock, file: Expected, part: Path, progress: Progress) -> str:
    """Transfer and compare one file; a continued one that differs is transferred once more from its beginning."""
    while True:
        continued = part.exists() and part.stat().st_size > 0
        hub.fetch(lock, file, part, progress)
        found = digest(part)
        fault = difference(found, file)
        if fault is None:
            return found.sha256
        part.unlink()
        if not continued:
            raise FirstwordError(
                f"{file.path} of {lock.repository} {fault}, as {hub.shown()} sent it",
                mend="run the same command again; if it says so again, unset HF_ENDPOINT",
                code=Exit.CHECKSUM,
            )
        progress.add(-file.size)


def _from_cache(lock: Lock, file: Expected, part: Path, progress: Progress) -> str | None:
    """Link or copy a file from the user's Hugging Face cache; return its sha256, None if it is not there or differs."""
    source = hub.in_cache(lock, file)
    if source is None or not source.is_file() or source.stat().st_size != file.size:
        return None
    found = digest(source)
    if difference(found, file) is not None:
        return None
    before = part.stat().st_size if part.exists() else 0
    part.unlink(missing_ok=True)
    try:
        part.hardlink_to(source)
    except OSError:  # another disk
        shutil.copyfile(source, part)
    progress.add(file.size - before)
    return found.sha256


def _in_parallel(bring: Callable[[Expected], None], wanted: list[Expected], progress: Progress) -> None:
    """Run the transfers; the first failure stops the others.

    Threads are daemons, so that an interrupt ends the program at once: partial files stay for the next run.
    """
    waiting: queue.SimpleQueue[Expected] = queue.SimpleQueue()
    for file in sorted(wanted, key=lambda file: -file.size):
        waiting.put(file)
    failures: queue.SimpleQueue[BaseException] = queue.SimpleQueue()

    def work() -> None:
        while failures.empty():
            try:
                file = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                bring(file)
            except Stopped:
                return
            except BaseException as error:  # handed to the caller below
                failures.put(error)
                progress.stop()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_TRANSFERS, len(wanted)))]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) and failures.empty():
            for thread in threads:
                thread.join(0.1)
    except KeyboardInterrupt:
        progress.stop()
        raise
    for thread in threads:
        thread.join(1)
    if not failures.empty():
        raise failures.get()


def _part_name(file: Expected) -> str:
    """Return a name that belongs to this content alone: a part of another revision's file is never continued."""
    return f"{quote(file.path, safe='')}.{(file.sha256 or file.git_sha1 or 'unknown')[:16]}"


def _require_space(lock: Lock, folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size + _SPARE:
        raise FirstwordError(
            f"{lock.name} needs {size / 1e9:.2f} GB more in {folder}, {free / 1e9:.2f} GB are free",
            mend="free space there, or set FIRSTWORD_HOME to a folder on a larger disk",
            code=Exit.DISK_FULL,
        )


@contextmanager
def _alone(folder: Path, report: Report) -> Iterator[None]:
    """Hold the folder against another process that downloads into it."""
    with (folder.parent / f".{folder.name}.lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another process that downloads into {folder}")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
