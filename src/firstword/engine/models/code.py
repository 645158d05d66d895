"""Python that lies in a checkpoint: it runs when the engine starts, so it is known or it is refused.

The engine loads it with ``trust_remote_code``, which vLLM-Omni passes in several places whatever the configuration
says; the only guard is to look before the start. Known is: a file whose sha256 stands in a lock, one that a download
verified against the hub (in firstword's own folder of models), one equal to a file that firstword ships (synthetic
checkpoints carry such files), and one whose sha256 the user has named in ``FIRSTWORD_TRUST_CODE`` after reading it.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import firstword
from firstword import documents
from firstword.engine.models import catalog, locks
from firstword.engine.models.digests import digest
from firstword.engine.models.folders import models_folder
from firstword.engine.models.record import Record
from firstword.errors import Exit, FirstwordError


def require_known(folder: Path) -> None:
    """Refuse a checkpoint folder that holds Python nobody vouches for.

    Raises:
        FirstwordError: Naming each such file with its sha256.
    """
    for file, target in _borrowed(folder):
        raise FirstwordError(
            f"{file} takes its Python from elsewhere: {target}",
            mend="put that code into the folder, and name it without the part before --",
            code=Exit.CHECKSUM,
        )
    files = [path for path in sorted(folder.rglob("*.py")) if not path.is_dir()]
    for path in files:
        state = documents.state(path)
        if state and state != "is empty":
            raise FirstwordError(
                f"{path.relative_to(folder)} in {folder} {state}",
                mend="put a file there that can be read, or remove it",
                code=Exit.CHECKPOINT_INCOMPLETE,
            )
    found = {path: digest(path).sha256 for path in files}
    if not found:
        return
    known = _trusted() | _locked() | _downloaded(folder) | _shipped()
    unknown = {path: sha256 for path, sha256 in found.items() if sha256 not in known}
    if unknown:
        named = ", ".join(f"{path.relative_to(folder)} (sha256 {sha256})" for path, sha256 in unknown.items())
        raise FirstwordError(
            f"{folder} holds Python that would run and that nobody has verified: {named}",
            mend=f"read it, then set FIRSTWORD_TRUST_CODE={','.join(unknown.values())}",
            code=Exit.CHECKSUM,
        )


def _borrowed(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield each ``auto_map`` entry that names another repository, whose code no check of this folder would see."""
    for file in sorted(folder.glob("*.json")):
        if not documents.is_readable(file):
            continue
        if file.stat().st_size > 1_000_000 and "config" not in file.name:  # vocabularies and tokenizers
            continue
        try:
            data = documents.read_json(file)
        except (OSError, ValueError):
            continue
        mapping = data.get("auto_map") if isinstance(data, dict) else None
        if isinstance(mapping, dict):
            targets = [t for value in mapping.values() for t in (value if isinstance(value, list) else [value])]
            yield from ((file, str(target)) for target in targets if target is not None and "--" in str(target))


def _trusted() -> set[str]:
    return {item.strip().lower() for item in os.environ.get("FIRSTWORD_TRUST_CODE", "").split(",")} - {""}


def _locked() -> set[str]:
    return {
        file.sha256
        for name in locks.names()
        for file in locks.load(name).files.values()
        if file.sha256 and file.path.endswith(".py")
    }


def _downloaded(folder: Path) -> set[str]:
    """Return what a download verified; a record that came with a folder from elsewhere proves nothing."""
    folder = folder.resolve()
    entry = catalog.find(folder.name) if folder.parent == models_folder().resolve() else None
    if entry is None or entry.lock is None:
        return set()
    return set(Record.load(folder, entry.lock).verified.values())


def _shipped() -> set[str]:
    return {digest(path).sha256 for path in (Path(firstword.__file__).parent / "synthetic").rglob("*.py")}
