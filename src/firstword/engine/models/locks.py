"""The lock files of published models: one revision, and what is known of its files."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

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
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return _parsed(path.stem, data)
    except RecursionError:
        fault = "it is nested too deep"
    except KeyError as error:
        fault = f"it has no {error.args[0]}"
    except (ValueError, TypeError) as error:  # bad TOML and what is no UTF-8 among them
        fault = " ".join(str(error).split())
    raise FirstwordError(
        f"{path} is no lock of a model: {fault}",
        mend="restore it (git checkout), or set FIRSTWORD_ROOT to a whole firstword checkout",
        code=Exit.CONFIG,
    )


def _parsed(name: str, data: dict[str, Any]) -> Lock:
    files = [_file(item) for item in _of(list, data, "files")]
    lock = Lock(
        name=name,
        repository=_text(data, "repository", r"[\w.-]+/[\w.-]+"),
        revision=_text(data, "revision", r"[0-9a-f]{40}"),
        family=_text(data, "family", r"[a-z0-9-]+"),
        kind=_text(data, "kind", r"[a-z0-9_]+"),
        licence=_text(data, "licence", r".+"),
        complete=_of(bool, data, "complete"),
        architecture={key: _of(int, _of(dict, data, "architecture"), key) for key in data["architecture"]},
        files={file.path: file for file in files},
    )
    if len(lock.files) != len(files):
        raise ValueError("a file stands twice in it")
    return lock


def _file(item: Any) -> Expected:
    if not isinstance(item, dict):
        raise TypeError("files holds something else than tables")
    path = _of(str, item, "path")
    size = _of(int, item, "size")
    if not is_safe(path) or isinstance(size, bool) or size < 0:
        raise ValueError(f"its file {path!r} of {size} bytes cannot be one")
    return Expected(path, size, _text(item, "sha256", r"[0-9a-f]{64}") if "sha256" in item else None)


def _of[T](kind: type[T], table: dict[str, Any], key: str) -> T:
    value = table[key]
    if not isinstance(value, kind):
        raise TypeError(f"its {key} is {value!r}, no {kind.__name__}")
    return value


def _text(table: dict[str, Any], key: str, pattern: str) -> str:
    value = _of(str, table, key)
    if not re.fullmatch(pattern, value):
        raise ValueError(f"its {key} is {value!r}")
    return value


def names() -> list[str]:
    """Return the names of the published models, sorted."""
    return sorted(path.stem for path in _folder().glob("*.lock"))


def load(name: str) -> Lock:
    """Return a published model's lock; ``name`` is one of `names`.

    Raises:
        FirstwordError: The lock is damaged.
    """
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
