"""Side-by-side trees: a package as released, or with chosen patches, for tests and benchmarks.

Put a tree first on `PYTHONPATH` and Python imports the package from there, everything else from
the environment. So an unpatched and a patched run are two processes of one environment.
"""

import os
import shutil
from pathlib import Path

from firstword.errors import Exit, FirstwordError
from firstword.patching.applying import compose, read
from firstword.patching.diffs import DoesNotApply, apply_change
from firstword.patching.series import Patch, Series, Sums, sha256


def build_tree(
    dest: Path,
    site_packages: Path,
    series: Series,
    *,
    upto: str | None = None,
    without: str | None = None,
    link: bool = True,
) -> Path:
    """Copy the packages that the series changes, with a choice of its patches.

    Args:
        dest: A folder that does not exist yet, or an empty one.
        site_packages: Where the packages are installed, patched or not.
        series: The series.
        upto: Name of the last patch to apply, or ``stock`` for none. By default all.
        without: Name of a patch to leave out, with those that depend on it.
        link: Hard-link the files that no patch changes, where possible: the tree is then to be read
            only. Otherwise copy them.

    Returns:
        `dest`.

    Raises:
        FirstwordError: `dest` is not empty, a file is neither as released nor as patched, or, with
            `without`, a patch needs the one left out and does not say so.
    """
    if upto is not None and without is not None:
        raise ValueError("upto and without exclude each other")
    patches: tuple[Patch, ...] = series.patches
    if upto is not None:
        patches = series.upto(upto)
    if without is not None:
        patches = series.without(without)
    sums = series.sums
    packages = sorted({path.partition("/")[0] for path in sums})
    dest.mkdir(parents=True, exist_ok=True)
    if any(dest.iterdir()):
        raise FirstwordError(f"{dest} is not empty", mend="name another folder", code=Exit.PATCHES)
    for package in packages:
        _copy_package(site_packages, dest, package, set(sums), link=link)
    for path in sums:
        text = stock(series, site_packages, path, sums[path])
        # A patch left out of the middle moves the lines of those after it.
        text = compose(patches, path, text, relocate=without is not None)
        (dest / path).write_bytes(text.encode())
    return dest


def stock(series: Series, site_packages: Path, path: str, sums: Sums) -> str:
    """Return a file as released: as it is, or with the whole series undone exactly.

    Raises:
        FirstwordError: It is neither as released nor as patched.
    """
    data = read(site_packages, path)
    if sha256(data) == sums.before:
        return data.decode("utf-8")
    if sha256(data) == sums.after:
        text = data.decode("utf-8")
        changes = [change for patch in series.patches for change in patch.changes if change.path == path]
        try:
            for change in reversed(changes):
                text = apply_change(change.reversed(), text)
        except DoesNotApply as error:  # the checksum says that these very patches made the file
            raise AssertionError(f"{path}: {error}") from error
        if sha256(text.encode()) == sums.before:
            return text
    raise FirstwordError(
        f"{path} in {site_packages} is neither the released file nor the patched one",
        mend="reinstall its distribution",
        code=Exit.PATCHES,
    )


def _copy_package(site_packages: Path, dest: Path, package: str, changed: set[str], *, link: bool) -> None:
    root = site_packages / package
    if not root.is_dir():
        return
    stems = {Path(path).with_suffix("").as_posix() for path in changed}
    for folder, _, names in os.walk(root):
        relative = Path(folder).relative_to(site_packages)
        (dest / relative).mkdir(parents=True, exist_ok=True)
        for name in names:
            source, path = Path(folder) / name, relative / name
            if path.as_posix() in changed:
                continue
            if relative.name == "__pycache__" and (relative.parent / name.partition(".")[0]).as_posix() in stems:
                continue
            if not (link and _linked(source, dest / path)):
                shutil.copy2(source, dest / path)


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:  # another file system, or not ours to link
        return False
    return True
