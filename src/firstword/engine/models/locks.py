"""The lock files of published models: one revision, and what is known of its files."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from firstword import paths
from firstword.errors import Exit, FirstwordError


@dataclass(frozen=True)
class Expected:
    """What one file of a checkpoint must be.

    Attributes:
        path: Relative to the checkpoint, with forward slashes.
        size: Bytes.
        sha256: Of the content; None where nobody has told yet.
        git_sha1: Git's name of the content (the hub gives it for small files), None where the sha256 is known.
    """

    path: str
    size: int
    sha256: str | None = None
    git_sha1: str | None = None


@dataclass(frozen=True)
class Lock:
    """A published model at one revision.

    Attributes:
        name: The catalogue's name, the lock file's without its suffix.
        repository: ``owner/name`` on the hub.
        revision: A commit, 40 hexadecimal digits.
        family: ``qwen3-tts`` or ``step-audio-2``.
        kind: What it can do; see `firstword.engine.models.checkpoint.KINDS`.
        licence: SPDX identifier of the weights' licence.
        complete: Whether ``files`` are all there are; otherwise the hub's listing of the revision adds the rest.
        architecture: The language model's shape, for `firstword.engine.config.of_sizes`.
        files: What is known, by path.
    """

    name: str
    repository: str
    revision: str
    family: str
    kind: str
    licence: str
    complete: bool
    architecture: dict[str, int]
    files: dict[str, Expected]

    @property
    def size(self) -> int:
        """Bytes of the known files; of an incomplete lock all but a few megabytes."""
        return sum(file.size for file in self.files.values())


@cache
def _read(path: Path) -> Lock:
    data = tomllib.loads(path.read_text())
    files = [Expected(item["path"], item["size"], item.get("sha256")) for item in data["files"]]
    return Lock(
        name=path.stem,
        repository=data["repository"],
        revision=data["revision"],
        family=data["family"],
        kind=data["kind"],
        licence=data["licence"],
        complete=data["complete"],
        architecture=data["architecture"],
        files={file.path: file for file in files},
    )


def names() -> list[str]:
    """Return the names of the published models, sorted."""
    return sorted(path.stem for path in _folder().glob("*.lock"))


def load(name: str) -> Lock:
    """Return a published model's lock; ``name`` is one of `names`."""
    return _read(_folder() / f"{name}.lock")


def is_safe(path: str) -> bool:
    """Return whether a relative path stays inside the folder that it is joined to, and hides nothing there."""
    parts = PurePosixPath(path).parts
    return (
        bool(parts)
        and not path.startswith("/")
        and "\\" not in path
        and "\0" not in path
        and not any(part == ".." or part.startswith(".") for part in parts)
    )


def _folder() -> Path:
    folder = paths.root() / "configs" / "models"
    if not folder.is_dir():
        raise FirstwordError(f"no model locks: {folder} is missing", mend="restore the checkout", code=Exit.CONFIG)
    return folder
