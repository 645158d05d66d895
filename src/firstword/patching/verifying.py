"""Is an environment patched as this checkout's series says?"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from firstword import documents, paths
from firstword.errors import FirstwordError
from firstword.patching.environment import installed_version
from firstword.patching.manifest import Manifest, manifest_path
from firstword.patching.series import Series, Sums, load_series, sha256


@dataclass(frozen=True)
class Problem:
    """One thing that is not as it should be: what, and the command that mends it."""

    cause: str
    mend: str


def verify(site_packages: Path, series: Series | None = None) -> list[Problem]:
    """Return all that differs between an environment and the series; empty if nothing does.

    Args:
        site_packages: The environment's folder.
        series: The series to compare with; by default this checkout's.
    """
    try:
        series = series or load_series(paths.root() / "patches")
        manifest = Manifest.read(site_packages)
    except FirstwordError as error:
        return [Problem(error.cause, error.mend)]
    if manifest is None:
        return [
            Problem(
                f"the patches are not applied to {site_packages}",
                f"run `firstword patches apply --site-packages {site_packages}`",
            )
        ]
    reapply = reapplying(series)
    problems = []
    if manifest.series_sha256 != series.sha256:
        problems.append(Problem(f"{manifest_path(site_packages)} is of another series than {series.root}", reapply))
    for distribution, wanted in series.versions.items():
        version = installed_version(site_packages, distribution)
        if version != wanted:
            problems.append(
                Problem(
                    f"{distribution} is {version or 'not installed'}; the patches are for {wanted}",
                    f"install {distribution}=={wanted}",
                )
            )
    for path, state in unpatched(site_packages, series.sums):
        may_not = f"let the user with id {os.geteuid()} read {site_packages / path}"
        problems.append(Problem(f"{path} {state}", may_not if state == documents.FORBIDDEN else reapply))
    return problems


def reapplying(series: Series) -> str:
    """Return what mends an environment whose files are no more as `apply` left them."""
    names = " ".join(f"{name}=={version}" for name, version in series.versions.items())
    return f"reinstall {names}, then run `firstword patches apply`"


def unpatched(site_packages: Path, files: Mapping[str, Sums]) -> Iterator[tuple[str, str]]:
    """Yield each file that is not as the series makes it, and how it differs."""
    for path, sums in files.items():
        file = site_packages / path
        fault = documents.state(file)
        if fault and fault != "is empty":
            yield path, fault
            continue
        found = sha256(file.read_bytes())
        if found != sums.after:
            yield path, "is not patched" if found == sums.before else "was changed after it was patched"
