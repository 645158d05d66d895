"""Ask for tens of thousands of files in half a second: each folder is listed once, no file is looked at."""

import os
from pathlib import Path


class Listings:
    """The files below a folder, read as they are asked for.

    Args:
        root: The folder, e.g. ``site-packages``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._names: dict[str, frozenset[str]] = {}

    def holds(self, path: str) -> bool:
        """Whether ``path`` (below the root, with slashes) is a file; a link to nothing is none."""
        folder, _, name = path.rpartition("/")
        if folder not in self._names:
            self._names[folder] = self._list(folder)
        return name in self._names[folder]

    def _list(self, folder: str) -> frozenset[str]:
        try:
            # The kind of an entry comes with its name; only links are followed.
            with os.scandir(self.root / folder) as entries:
                return frozenset(entry.name for entry in entries if entry.is_file())
        except OSError:
            return frozenset()
