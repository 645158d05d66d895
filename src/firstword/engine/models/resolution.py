"""From a name or a folder to a checkpoint that was verified and can be served."""

import errno
from pathlib import Path

from firstword.engine.models import catalog, code, hub, made, verify
from firstword.engine.models.checkpoint import Checkpoint, recognise, require_whole
from firstword.engine.models.download import download
from firstword.engine.models.folders import models_folder, synthetic_folder
from firstword.engine.models.locks import Lock
from firstword.engine.models.progress import Report
from firstword.engine.models.record import Record
from firstword.errors import Exit, FirstwordError


def _silent(line: str) -> None:
    del line


def find(name_or_path: str | Path) -> tuple[catalog.Entry | None, Path]:
    """Return what a name or a folder stands for: an entry of the catalogue, else None and the folder, resolved.

    Raises:
        FirstwordError: It is neither, or the folder cannot be looked at.
    """
    text = str(name_or_path)
    entry = catalog.find(text)
    if entry is not None:
        return entry, Path()
    try:
        folder = Path(text).expanduser()
        found = bool(text) and folder.is_dir()  # an empty path would be the current folder
    except (RuntimeError, ValueError):  # "~nobody", a null byte
        found = False
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        found = False
    if not found:
        catalog.get(text)  # raises, with the nearest names
    return None, folder.resolve()


def resolve(
    name_or_path: str | Path,
    *,
    offline: bool = False,
    cache: Path | None = None,
    report: Report = _silent,
    full: bool = False,
    speaks: bool = True,
) -> Checkpoint:
    """Return a verified checkpoint, downloading a published model that is not here.

    Args:
        name_or_path: A name of the catalogue, or a checkpoint folder. A name comes before a folder called the same;
            write ``./name`` for the folder.
        offline: Never touch the network; ``HF_HUB_OFFLINE`` says the same.
        cache: Folder of downloaded models; see `models_folder`.
        report: Takes lines of progress.
        full: Read every byte of a published or a synthetic model again, whatever was verified before. Of any other
            folder nobody knows the checksums.
        speaks: Whether the model will speak. For recognition alone, a folder of Step-Audio-2 may lack token2wav/.

    Raises:
        FirstwordError: The model is unknown, incomplete, not what was published, or cannot be downloaded.
    """
    entry, folder = find(name_or_path)
    if entry is not None:
        if entry.lock is None:
            return _synthetic(entry, speaks, full)
        return _published(entry.lock, models_folder(cache) / entry.name, offline or hub.is_offline(), report, full)
    made_for = catalog.find(folder.name) if folder.parent == models_folder(cache).resolve() else None
    if made_for is not None and made_for.lock is not None:
        # A folder that a download made, by its path: verified as by its name, and left as it is. The same folder
        # elsewhere brings its own record along, which proves nothing: it is judged as any other.
        return _published(made_for.lock, folder, True, report, full)
    return _folder(folder, folder.name, speaks, full)


def describe(name_or_path: str | Path) -> Checkpoint:
    """Return what a name or a folder stands for. Nothing is downloaded, verified or asked to be whole.

    Raises:
        FirstwordError: The model is unknown, or the folder's configuration cannot be read.
    """
    entry, folder = find(name_or_path)
    if entry is None:
        family, kind = recognise(folder)
        return Checkpoint(folder.name, family, kind, folder, None)
    if entry.lock is None:
        return Checkpoint(entry.name, entry.family, entry.kind, synthetic_folder(entry.name), None)
    return Checkpoint(entry.name, entry.family, entry.kind, models_folder() / entry.name, entry.lock.revision)


def _published(lock: Lock, folder: Path, offline: bool, report: Report, full: bool) -> Checkpoint:
    record = Record.load(folder, lock)
    files = verify.expected(lock, record)
    state = None
    if files is not None:
        state = verify.check(folder, files, record, full=full)
        if state.read:
            report(f"verified {len(state.read)} files of {lock.name}")
            _remember(record, report)
    if files is None or state is None or state.missing:
        if state is not None:
            missing, state.missing = state.missing, []
            verify.require_whole(lock.name, folder, state)
            what = f"lacks {verify.listed(missing)}" if folder.is_dir() else "was never downloaded"
        else:
            what = "was never completely downloaded" if folder.is_dir() else "was never downloaded"
        if offline:
            fetch = f"firstword models download {lock.name}"
            forbidden = hub.forbidden_by()
            raise FirstwordError(
                f"{lock.name} {what} ({folder})" + (f", and {forbidden} forbids the network" if forbidden else ""),
                mend=f"run once with the network: env -u {forbidden} {fetch}" if forbidden else fetch,
                code=Exit.CHECKPOINT_INCOMPLETE,
            )
        download(lock, folder, report=report)
        record = Record.load(folder, lock)
        files = verify.expected(lock, record)
        assert files is not None
        state = verify.check(folder, files, record)
    verify.require_whole(lock.name, folder, state)
    family, kind = recognise(folder)
    if (family, kind) != (lock.family, lock.kind):
        raise FirstwordError(
            f"{folder} holds a {family} {kind}, {lock.name} is a {lock.family} {lock.kind}",
            mend="correct the lock in configs/models/",
            code=Exit.CHECKSUM,
        )
    return Checkpoint(lock.name, family, kind, folder.resolve(), lock.revision)


def _remember(record: Record, report: Report) -> None:
    """Save the record; a read-only folder costs only the next start's reading."""
    try:
        record.save()
    except OSError as error:
        report(f"cannot remember that in {record.folder} ({error.strerror}): the next start reads the files again")


def _synthetic(entry: catalog.Entry, speaks: bool, full: bool) -> Checkpoint:
    folder = synthetic_folder(entry.name)
    if not (folder / "config.json").is_file():
        raise FirstwordError(
            f"the synthetic checkpoint {entry.name} is not made yet ({folder})",
            mend=f"firstword synthetic {entry.name} {folder}",
            code=Exit.CHECKPOINT_INCOMPLETE,
        )
    found = _folder(folder.resolve(), entry.name, speaks, full)
    if (found.family, found.kind) != (entry.family, entry.kind):
        raise FirstwordError(
            f"{folder} holds a {found.family} {found.kind}, not {entry.name}",
            mend=f"remove it, then: firstword synthetic {entry.name} {folder}",
            code=Exit.CHECKPOINT_INCOMPLETE,
        )
    return found


def _folder(folder: Path, name: str, speaks: bool, full: bool) -> Checkpoint:
    """Return a folder as it is: recognised, whole, and without Python that nobody vouches for."""
    family, kind = recognise(folder)
    require_whole(folder, family, speaks=speaks)
    if full:
        made.require_unchanged(folder)
    code.require_known(folder)
    return Checkpoint(name, family, kind, folder, None)
