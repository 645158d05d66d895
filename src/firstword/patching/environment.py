"""Where distributions are installed, and which version of them."""

import importlib.metadata
import sys
from collections.abc import Iterable
from pathlib import Path

from firstword.errors import Exit, FirstwordError


def installed_version(site_packages: Path, distribution: str) -> str | None:
    """Return the version of a distribution whose metadata lies in a folder, or None."""
    found = next(iter(importlib.metadata.distributions(name=distribution, path=[str(site_packages)])), None)
    return found.version if found else None


def find_site_packages(distributions: Iterable[str]) -> Path:
    """Return the folder from which this interpreter imports the distributions.

    Raises:
        FirstwordError: One is not installed, or they lie in different folders.
    """
    mend = "run it with the engine's Python, or name the folder with --site-packages"
    folders: dict[Path, str] = {}
    for name in distributions:
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise FirstwordError(f"{sys.prefix} has no {name}", mend=mend, code=Exit.PATCHES) from None
        folders.setdefault(Path(str(found.locate_file(""))).resolve(), name)
    if len(folders) != 1:
        places = ", ".join(f"{name} in {folder}" for folder, name in folders.items())
        raise FirstwordError(f"the distributions lie in different folders: {places}", mend=mend, code=Exit.PATCHES)
    return next(iter(folders))
