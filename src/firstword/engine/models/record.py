"""What was verified in a checkpoint folder, so that later starts take milliseconds.

The record stands in the folder itself. It holds the hub's listing of the revision (for a model whose lock does
not name every file), the checksum of each file that was verified, and the file's size, time of change and inode
at that moment: while these are the same, the content is taken to be. Whoever can rewrite the record can rewrite
the checkpoint; it guards against damage and against a hub that answers differently later, not against the
machine's own user.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from firstword import documents
from firstword.engine.models.locks import Expected, Lock

NAME = ".firstword.json"
_FORMAT = 1


@dataclass
class Record:
    """The record of one checkpoint folder at one revision.

    Attributes:
        folder: The checkpoint folder.
        model: The catalogue's name.
        repository: On the hub.
        revision: The commit that everything below belongs to.
        listing: What the hub lists at that revision, None until it was asked.
        verified: sha256 by path.
        stats: Size, mtime in ns and inode by path, when the content was verified.
    """

    folder: Path
    model: str
    repository: str
    revision: str
    listing: dict[str, Expected] | None = None
    verified: dict[str, str] = field(default_factory=dict)
    stats: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path, lock: Lock) -> "Record":
        """Return the folder's record, or an empty one where there is none for this revision."""
        empty = cls(folder, lock.name, lock.repository, lock.revision)
        data = _read(folder)
        if data is None or (data.get("repository"), data.get("revision")) != (lock.repository, lock.revision):
            return empty
        try:
            listing = data["listing"]
            return cls(
                folder,
                lock.name,
                lock.repository,
                lock.revision,
                listing=None if listing is None else {item["path"]: Expected(**item) for item in listing},
                verified={str(path): str(sha256) for path, sha256 in data["verified"].items()},
                stats={str(path): [int(n) for n in stat] for path, stat in data["stats"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return empty

    def save(self) -> None:
        """Write the record, all of it or nothing."""
        data = {
            "format": _FORMAT,
            "model": self.model,
            "repository": self.repository,
            "revision": self.revision,
            "listing": None if self.listing is None else [asdict(item) for item in self.listing.values()],
            "verified": self.verified,
            "stats": self.stats,
        }
        scratch = self.folder / f"{NAME}.{os.getpid()}"
        scratch.write_text(json.dumps(data, indent=1) + "\n")
        scratch.replace(self.folder / NAME)

    def set_verified(self, path: str, sha256: str) -> None:
        """Remember that the file at ``path`` has this content now."""
        self.verified[path] = sha256
        self.stats[path] = stat(self.folder / path)

    def is_unchanged(self, path: str) -> bool:
        """Return whether the file at ``path`` is the very one that was verified, without reading it."""
        return path in self.verified and self.stats.get(path) == stat(self.folder / path)


def stat(path: Path) -> list[int]:
    """Return size, time of change in ns and inode of a file; empty when it is not there."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ino]


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        data = documents.read_json(folder / NAME)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) and data.get("format") == _FORMAT else None
