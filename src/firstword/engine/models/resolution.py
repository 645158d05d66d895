"""From a name or a folder to a checkpoint that was verified and can be served."""

from pathlib import Path

from firstword.engine.models import catalog, code, hub, verify
from firstword.engine.models.checkpoint import Checkpoint, recognise, require_whole
from firstword.engine.models.download import download
from firstword.engine.models.folders import models_folder, synthetic_folder
from firstword.engine.models.locks import Lock
from firstword.engine.models.progress import Report
from firstword.engine.models.record import Record
from firstword.errors import Exit, FirstwordError


def _silent(line: str) -> None:
    del line


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
        full: Read every byte of a published model again, whatever was verified before.
        speaks: Whether the model will speak. For recognition alone, a folder of Step-Audio-2 may lack token2wav/.

    Raises:
        FirstwordError: The model is unknown, incomplete, not what was published, or cannot be downloaded.
    """
    text = str(name_or_path)
    entry = catalog.find(text)
    folder = Path(text).expanduser()
    if entry is None and not folder.is_dir():
        entry = catalog.get(text)  # raises, with the nearest names
    if entry is not None:
        if entry.lock is None:
            return _synthetic(entry, speaks)
        return _published(entry.lock, models_folder(cache) / entry.name, offline or hub.is_offline(), report, full)
    folder = folder.resolve()
    made_for = catalog.find(folder.name) if folder.parent == models_folder(cache).resolve() else None
    if made_for is not None and made_for.lock is not None:
        # A folder that a download made, by its path: verified as by its name, and left as it is. The same folder
        # elsewhere brings its own record along, which proves nothing: it is judged as any other.
        return _published(made_for.lock, folder, True, report, full)
    return _folder(folder, folder.name, speaks)


def describe(name_or_path: str | Path) -> Checkpoint:
    """Return what a name or a folder stands for. Nothing is downloaded, verified or asked to be whole.

    Raises:
        FirstwordError: The model is unknown, or the folder's configuration cannot be read.
    """
    text = str(name_or_path)
    entry, folder = catalog.find(text), Path(text).expanduser()
    if entry is None and folder.is_dir():
        family, kind = recognise(folder)
        return Checkpoint(folder.resolve().name, family, kind, folder.resolve(), None)
    entry = entry or catalog.get(text)  # raises, with the nearest names
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
            raise FirstwordError(
                f"{lock.name} {what} ({folder}), and the network is not to be used",
                mend=f"run once with the network: env -u HF_HUB_OFFLINE firstword models download {lock.name}",
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


def _synthetic(entry: catalog.Entry, speaks: bool) -> Checkpoint:
    folder = synthetic_folder(entry.name)
    if not (folder / "config.json").is_file():
        raise FirstwordError(
            f"the synthetic checkpoint {entry.name} is not made yet ({folder})",
            mend=f"firstword synthetic {entry.name} {folder}",
            code=Exit.CHECKPOINT_INCOMPLETE,
        )
    found = _folder(folder.resolve(), entry.name, speaks)
    if (found.family, found.kind) != (entry.family, entry.kind):
        raise FirstwordError(
            f"{folder} holds a {found.family} {found.kind}, not {entry.name}",
            mend=f"remove it, then: firstword synthetic {entry.name} {folder}",
            code=Exit.CHECKPOINT_INCOMPLETE,
        )
    return found


def _folder(folder: Path, name: str, speaks: bool) -> Checkpoint:
    """Return a folder as it is: recognised, whole, and without Python that nobody vouches for."""
    family, kind = recognise(folder)
    require_whole(folder, family, speaks=speaks)
    code.require_known(folder)
    return Checkpoint(name, family, kind, folder, None)
