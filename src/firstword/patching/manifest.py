"""The manifest that `apply` leaves in an environment: what was applied to which bytes.

It holds no date and no path of the machine, so that equal environments hold equal manifests.
The distributions' RECORD files stay as they are: they say what the wheels brought, and an audit
that compares files with RECORD should find exactly the files that this manifest explains.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstword import __version__, documents
from firstword.errors import Exit, FirstwordError
from firstword.patching.series import Patch, Series, Sums

NAME = "firstword-patches.json"
FORMAT = 1


def manifest_path(site_packages: Path) -> Path:
    """Return where an environment's manifest is."""
    return site_packages / NAME


@dataclass(frozen=True)
class Manifest:
    """What `apply` did.

    Attributes:
        series_sha256: `Series.sha256` of the series it came from.
        distributions: Name to version of the distributions changed.
        patches: Name to SHA-256 of each patch applied, in order.
        files: Path relative to site-packages to its checksums.
    """

    series_sha256: str
    distributions: Mapping[str, str]
    patches: Mapping[str, str]
    files: Mapping[str, Sums]

    @classmethod
    def of(cls, series: Series, distributions: Iterable[str]) -> "Manifest":
        """Return the manifest of a series applied to some of its distributions."""
        wanted = set(distributions)
        applied: tuple[Patch, ...] = tuple(p for p in series.patches if p.distribution in wanted)
        paths = {change.path for patch in applied for change in patch.changes}
        return cls(
            series_sha256=series.sha256,
            distributions={p.distribution: p.version for p in applied},
            patches={p.name: p.sha256 for p in applied},
            files={path: sums for path, sums in sorted(series.sums.items()) if path in paths},
        )

    def dump(self) -> bytes:
        """Return the manifest's file."""
        data = {
            "format": FORMAT,
            "firstword": __version__,
            "series_sha256": self.series_sha256,
            "distributions": dict(self.distributions),
            "patches": dict(self.patches),
            "files": {path: {"before": s.before, "after": s.after} for path, s in self.files.items()},
        }
        return (json.dumps(data, indent=1) + "\n").encode()

    @classmethod
    def read(cls, site_packages: Path) -> "Manifest | None":
        """Return an environment's manifest, or None if it has none.

        Raises:
            FirstwordError: There is one, but it cannot be read.
        """
        path = manifest_path(site_packages)
        try:
            data: Any = {FORMAT: documents.read_json(path)}
            data = data[data[FORMAT]["format"]]  # a KeyError if it is of another format
            return cls(
                series_sha256=str(data["series_sha256"]),
                distributions={str(k): str(v) for k, v in data["distributions"].items()},
                patches={str(k): str(v) for k, v in data["patches"].items()},
                files={str(k): Sums(str(v["before"]), str(v["after"])) for k, v in data["files"].items()},
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no manifest of this firstword"
            raise FirstwordError(
                f"cannot read {path}: {why}",
                # Without a manifest the patched files are known by their checksums, and it is written anew.
                mend=f"rm -r {path} && firstword patches apply --site-packages {site_packages}",
                code=Exit.PATCHES,
            ) from None
