"""Find modules where Python would find them, without running any.

``importlib.util.find_spec("a.b")`` imports ``a``; for torch or vLLM that takes seconds and may itself
fail. Here each part is looked up with the interpreter's own `FileFinder` in the folders of its parent.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path


@dataclass(frozen=True)
class Module:
    """A module that exists: its file (None for a namespace package) and the folders of its submodules."""

    name: str
    file: str | None
    folders: tuple[str, ...]

    @property
    def is_package(self) -> bool:
        """Whether relative imports inside it start at itself."""
        return bool(self.folders)

    @property
    def is_source(self) -> bool:
        """Whether its file can be read as Python."""
        return self.file is not None and self.file.endswith(".py")


def search_paths(site_packages: Path) -> list[str]:
    """Return the folders an interpreter with this ``site-packages`` searches, the standard library left out.

    ``PYTHONPATH`` comes first, then the folder itself, then what its ``.pth`` files name (editable installs).
    """
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths.append(str(site_packages))
    for pth in sorted(site_packages.glob("*.pth")):
        for line in pth.read_text(errors="replace").splitlines():
            folder = site_packages / line.strip()
            if line.strip() and not line.startswith(("#", "import ", "import\t")) and folder.is_dir():
                paths.append(str(folder))
    return paths


class Resolver:
    """Looks modules up in the given folders; remembers answers."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self._finders: dict[str, FileFinder] = {}
        self._known: dict[str, Module | None] = {}

    def find(self, name: str) -> Module | None:
        """Return the module, or None when an import of it would find nothing."""
        if name not in self._known:
            parent, _, _ = name.rpartition(".")
            if parent:
                found = self.find(parent)
                folders: Sequence[str] = found.folders if found else ()
            else:
                folders = self.paths
            self._known[name] = self._look(name, folders)
        return self._known[name]

    def _look(self, name: str, folders: Sequence[str]) -> Module | None:
        portions: list[str] = []
        for folder in folders:
            spec = self._finder(folder).find_spec(name)
            if spec is None:
                continue
            inner = tuple(spec.submodule_search_locations or ())
            if spec.loader is not None:
                return Module(name, spec.origin, inner)
            portions += [portion for portion in inner if _holds_modules(portion)]
        return Module(name, None, tuple(portions)) if portions else None

    def _finder(self, folder: str) -> FileFinder:
        if folder not in self._finders:
            self._finders[folder] = FileFinder(
                folder,
                (ExtensionFileLoader, EXTENSION_SUFFIXES),
                (SourceFileLoader, SOURCE_SUFFIXES),
                (SourcelessFileLoader, BYTECODE_SUFFIXES),
            )
        return self._finders[folder]


def _holds_modules(folder: str) -> bool:
    """Whether a folder without ``__init__.py`` is more than what an uninstalled package left behind."""
    with os.scandir(folder) as entries:
        return any(entry.name != "__pycache__" for entry in entries)
