"""Throwaway environments: the installed one, file by file a link, with something taken away or changed."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from firstword import paths
from firstword.engine.preflight.installed import Installed
from firstword.patching import Manifest, build_tree, load_series, manifest_path

Edit = Callable[[str], str]


@dataclass(frozen=True)
class Change:
    """What differs from the installed environment.

    Attributes:
        without: Distributions taken away, with everything that they alone installed.
        delete: Files and folders taken away, as paths below site-packages.
        edit: Source files changed: path -> what makes the new text from the old.
    """

    without: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    edit: Mapping[str, Edit] = field(default_factory=dict)


@dataclass(frozen=True)
class Overlay:
    """An environment: its interpreter and its packages."""

    python: Path
    site_packages: Path


def build(folder: Path, site_packages: Path, change: Change | None = None, *, patched: bool) -> Overlay:
    """Make an environment like the one that ``site_packages`` belongs to.

    Args:
        folder: A folder that does not exist yet.
        site_packages: The installed packages, patched or not.
        change: What is to differ.
        patched: Whether the patch series is applied, or the packages are as released.

    Raises:
        FirstwordError: A patched file is neither as released nor as patched.
    """
    change = change or Change()
    site = folder / "lib" / site_packages.parent.name / "site-packages"
    series = load_series(paths.root() / "patches")
    build_tree(site, site_packages, series, upto=None if patched else "stock")
    for entry in site_packages.iterdir():
        if entry.name != manifest_path(site).name and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())
    if patched:
        manifest_path(site).write_bytes(Manifest.of(series, series.versions).dump())
    for name in change.without:
        _remove_distribution(site, name)
    for path in change.delete:
        _remove(_own(site, path))
    for path, edit in change.edit.items():
        file = _own(site, path)
        text = file.read_text(encoding="utf-8")
        file.unlink()  # it may be a link to the installed file
        file.write_text(edit(text), encoding="utf-8")
    return Overlay(_interpreter(folder, site_packages), site)


def _interpreter(folder: Path, site_packages: Path) -> Path:
    """Link the interpreter so that it takes ``folder`` for its environment."""
    environment = site_packages.parents[2]
    shutil.copy2(environment / "pyvenv.cfg", folder / "pyvenv.cfg")
    (folder / "bin").mkdir()
    python = folder / "bin" / "python"
    python.symlink_to((environment / "bin" / "python").resolve())
    return python


def _remove_distribution(site: Path, name: str) -> None:
    """Take away a distribution: its metadata, and the packages and modules that it alone installs."""
    installed = Installed(site)
    found = installed.distributions[name]
    others = {top for other in installed.distributions.values() if other.name != name for top in other.tops}
    for entry in site.iterdir():
        if entry == found.folder or (entry.name.partition(".")[0] in found.tops - others):
            _remove(entry)


def _own(site: Path, path: str) -> Path:
    """Return a path below ``site`` whose folders are real ones, not links to the installed environment."""
    first, _, rest = path.partition("/")
    package = site / first
    if rest and package.is_symlink():
        real = package.resolve()
        package.unlink()
        shutil.copytree(real, package, copy_function=_link, symlinks=True)
    return site / path


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path)
