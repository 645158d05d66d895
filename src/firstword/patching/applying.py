"""Apply the series to an environment or to unpacked wheels."""

from collections.abc import Iterable
from pathlib import Path

from firstword import documents
from firstword.errors import Exit, FirstwordError
from firstword.patching.diffs import DoesNotApply, apply_change
from firstword.patching.environment import installed_version
from firstword.patching.manifest import Manifest, manifest_path
from firstword.patching.replacing import replace_all
from firstword.patching.series import Patch, Series, Sums, sha256
from firstword.patching.verifying import reapplying, unpatched


def apply(series: Series, site_packages: Path, *, partial: bool = False) -> Manifest:
    """Apply the whole series, or change nothing.

    An earlier call that was killed between two renames is completed: each file must be as released
    or as it becomes, and nothing else.

    Args:
        series: The series.
        site_packages: A folder of installed distributions, or of unpacked wheels.
        partial: Whether distributions of the series may be absent (one unpacked wheel).

    Returns:
        The manifest, which is then also in the folder.

    Raises:
        FirstwordError: The series was applied already, a distribution is absent or has another
            version, a file is not the released one, a patch does not apply, or the result is not
            the declared one.
    """
    distributions = present(series, site_packages, partial=partial)
    manifest = Manifest.of(series, distributions)
    _refuse_twice(series, manifest, site_packages)
    contents: dict[Path, bytes] = {}
    for path, sums in manifest.files.items():
        data = read(site_packages, path)
        if sha256(data) == sums.after:
            continue
        if sha256(data) != sums.before:
            raise FirstwordError(
                f"{path} in {site_packages} is neither the released file nor the patched one",
                mend="reinstall its distribution, then run `firstword patches apply`",
                code=Exit.PATCHES,
            )
        contents[site_packages / path] = patched(series.patches, path, data, sums)
    replace_all({**contents, manifest_path(site_packages): manifest.dump()})
    return manifest


def present(series: Series, site_packages: Path, *, partial: bool = False) -> list[str]:
    """Return the series' distributions that are in a folder, at the versions the series is for.

    Raises:
        FirstwordError: One has another version, or is absent and `partial` does not allow that.
    """
    found = []
    for distribution, wanted in series.versions.items():
        version = installed_version(site_packages, distribution)
        if version == wanted:
            found.append(distribution)
        elif version is not None:
            raise FirstwordError(
                f"{site_packages} has {distribution} {version}; the patches are for {wanted}",
                mend=f"install {distribution}=={wanted}, or refresh the patches (patches/README.md)",
                code=Exit.PATCHES,
            )
        elif not partial:
            raise FirstwordError(
                f"{site_packages} has no {distribution}; the patches are for {wanted}",
                mend=f"install {distribution}=={wanted}, or name another folder",
                code=Exit.PATCHES,
            )
    if not found:
        raise FirstwordError(
            f"{site_packages} holds no distribution that the patches are for",
            mend=f"name a folder with {' or '.join(series.versions)} in it",
            code=Exit.PATCHES,
        )
    return found


def _refuse_twice(series: Series, manifest: Manifest, site_packages: Path) -> None:
    old = Manifest.read(site_packages)
    if old is None or _released_again(old, site_packages):
        return
    cause = f"this series is already applied to {site_packages}"
    mend = "nothing to do; `firstword patches verify` checks it"
    if old.series_sha256 != manifest.series_sha256:
        names = " ".join(f"{name}=={version}" for name, version in old.distributions.items())
        cause = f"another series is already applied to {site_packages}"
        mend = f"reinstall {names}, then run `firstword patches apply`"
    elif differing := [f"{path} {state}" for path, state in unpatched(site_packages, manifest.files)]:
        cause = f"this series was applied to {site_packages}, and since then: {'; '.join(differing)}"
        mend = reapplying(series)
    raise FirstwordError(cause, mend=mend, code=Exit.PATCHES)


def _released_again(old: Manifest, site_packages: Path) -> bool:
    """Whether the distributions were installed anew over a manifest, which no installer removes."""
    return all(
        documents.is_readable(file := site_packages / path) and sha256(file.read_bytes()) == sums.before
        for path, sums in old.files.items()
    )


def read(site_packages: Path, path: str) -> bytes:
    """Return a file of a distribution.

    Raises:
        FirstwordError: It cannot be read.
    """
    try:
        return (site_packages / path).read_bytes()
    except OSError as error:
        raise FirstwordError(
            f"{path} in {site_packages}: {error.strerror}", mend="reinstall its distribution", code=Exit.PATCHES
        ) from None


def patched(patches: Iterable[Patch], path: str, data: bytes, sums: Sums) -> bytes:
    """Return a released file with the series applied.

    Raises:
        FirstwordError: A patch does not apply, or the result is not the declared one.
    """
    result = compose(patches, path, data.decode("utf-8")).encode()
    if sha256(result) != sums.after:
        raise FirstwordError(
            f"{path} is not the declared file after the patches",
            mend="run `firstword patches refresh` and review what it writes",
            code=Exit.PATCHES,
        )
    return result


def compose(patches: Iterable[Patch], path: str, text: str, *, relocate: bool = False) -> str:
    """Return a file's text after some patches, in order.

    Raises:
        FirstwordError: One does not apply.
    """
    for patch in patches:
        for change in patch.changes:
            if change.path != path:
                continue
            try:
                text = apply_change(change, text, relocate=relocate)
            except DoesNotApply as error:
                raise FirstwordError(
                    f"{patch.name} does not apply to {path}: {error}",
                    mend="refresh the patch (patches/README.md)",
                    code=Exit.PATCHES,
                ) from None
    return text
