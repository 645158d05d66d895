"""Released files, and what the series makes of them, without the engine's environment. Standard library only.

A bundle is a zip of the files that the series changes, as released, at their places in site-packages, with a
manifest; a wheel is such a zip too. Nothing in it is believed: each file must be the one that
`patches/checksums.json` declares, and so must what this checkout's patches make of it. So the small reader of diffs
below cannot be wrong unnoticed.
"""

import datetime
import email.parser
import importlib.metadata
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstword import documents
from firstword.errors import Exit, FirstwordError
from firstword.native.labels import series_names
from firstword.patching.diffs import DoesNotApply, FileChange, Hunk, apply_change, split_lines
from firstword.patching.series import CHECKSUMS, Sums, sha256

STOCK, PATCHED = SIDES = ("stock", "patched")
MANIFEST = "manifest.json"
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_LARGEST = 5_000_000  # bytes of one file


@dataclass(frozen=True)
class Sources:
    """Texts by side and path, and where each came from (distribution, version, SHA-256 as released, licence)."""

    texts: Mapping[tuple[str, str], str]
    manifest: Mapping[str, Any]


class Absent(LookupError):  # noqa: N818 - an outcome, not a program error
    """A file that no bundle holds."""


def read(bundles: Sequence[Path], root: Path) -> Sources:
    """Return the files of bundles or wheels, as released and patched.

    Args:
        bundles: Zips; of a file that several hold, the first one's counts.
        root: The folder `patches` of a checkout.

    Raises:
        FirstwordError: One is no zip, or holds a file that is not the declared one, or the patches do not make the
            declared one of it.
    """
    declared, changes = _declared(root), _changes(root)
    texts: dict[tuple[str, str], str] = {}
    manifest: dict[str, Any] = {}
    for bundle in bundles:
        found, told = _unpack(bundle, declared)
        for path, data in found.items():
            distribution, sums = declared[path]
            if sha256(data) != sums.before or told.get(path, {}).get("sha256", sums.before) != sums.before:
                raise FirstwordError(
                    f"{path} in {bundle} is not the file of {distribution} that patches/{CHECKSUMS} declares",
                    mend="make the bundle anew (--make-bundle) from this checkout's environment",
                    code=Exit.CHECKSUM,
                )
            if (STOCK, path) in texts:
                continue
            texts[STOCK, path] = data.decode("utf-8")
            texts[PATCHED, path] = _patched(path, texts[STOCK, path], changes, sums)
            name, _, version = distribution.partition("==")
            licence = told.get(path, {}).get("licence") or told.get("", "not declared")
            manifest[path] = {"distribution": name, "version": version, "sha256": sums.before, "licence": licence}
    return Sources(texts, manifest)


def text(sources: Sources, side: str, path: str) -> str:
    """Return a file.

    Raises:
        Absent: No bundle holds it.
    """
    try:
        return sources.texts[side, path]
    except KeyError:
        raise Absent(f"{path} is in no bundle that was given") from None


def make(to: Path, site_packages: Path, root: Path) -> int:
    """Write a bundle from an environment, patched or not; return how many files it holds.

    Raises:
        FirstwordError: A distribution is missing, or a file is neither as released nor as patched.
    """
    declared, changes = _declared(root), _changes(root)
    files = {path: _released(site_packages, path, changes, sums) for path, (_, sums) in declared.items()}
    names = {distribution.partition("==")[0] for distribution, _ in declared.values()}
    licences = {name: _licence(site_packages, name) for name in sorted(names)}
    entries = {}
    for path, (distribution, sums) in declared.items():
        name, _, version = distribution.partition("==")
        entries[path] = {
            "distribution": name,
            "version": version,
            "sha256": sums.before,
            "licence": licences[name][0],
        }
    manifest = {"made": datetime.datetime.now(datetime.UTC).date().isoformat(), "files": entries}
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(MANIFEST, json.dumps(manifest, indent=1) + "\n")
        for name, (_, licence) in licences.items():
            bundle.writestr(f"licences/{name}.txt", licence)
        for path, data in files.items():
            bundle.writestr(path, data)
    return len(files)


def _declared(root: Path) -> dict[str, tuple[str, Sums]]:
    """Return of each file that the series changes the distribution (``name==version``) and the checksums."""
    table = documents.read_json(root / CHECKSUMS)
    return {
        path: (distribution, Sums(sums["before"], sums["after"]))
        for distribution, files in table.items()
        for path, sums in files.items()
    }


def _changes(root: Path) -> list[FileChange]:
    return [change for name in series_names(root) for change in parse((root / name).read_bytes().decode("utf-8"))]


def parse(patch: str) -> Iterator[FileChange]:
    """Yield what a patch of the series changes, file by file."""
    path = ""
    hunks: list[Hunk] = []
    for kind, value in _entries(patch):
        if kind == "file":
            if hunks:
                yield FileChange(path, tuple(hunks))
            path, hunks = value, []
        else:
            hunks.append(value)
    if hunks:
        yield FileChange(path, tuple(hunks))


def _entries(patch: str) -> Iterator[tuple[str, Any]]:
    """Yield ``("file", path)`` and ``("hunk", hunk)``."""
    lines = iter(split_lines(patch))
    for line in lines:
        if line.startswith("--- a/"):
            yield "file", line.removeprefix("--- a/").strip()
        elif header := _HUNK.match(line):
            start, old, begins, new = (1 if part is None else int(part) for part in header.groups())
            yield "hunk", _hunk(lines, start, begins, old, new)


def _hunk(lines: Iterator[str], start: int, begins: int, old: int, new: int) -> Hunk:
    source: list[str] = []
    target: list[str] = []
    while len(source) < old or len(target) < new:
        line = next(lines)
        if line[0] in " -":
            source.append(line[1:])
        if line[0] in " +":
            target.append(line[1:])
    return Hunk(start, begins, tuple(source), tuple(target))


def _patched(path: str, text_: str, changes: Sequence[FileChange], sums: Sums) -> str:
    try:
        for change in changes:
            if change.path == path:
                text_ = apply_change(change, text_)
    except DoesNotApply as error:
        raise _not_declared(path, f": {error}") from None
    if sha256(text_.encode()) != sums.after:
        raise _not_declared(path)
    return text_


def _not_declared(path: str, why: str = "") -> FirstwordError:
    return FirstwordError(
        f"the patches do not make the declared file of {path}{why}",
        mend="run `firstword patches refresh` and review what it writes",
        code=Exit.PATCHES,
    )


def _released(site_packages: Path, path: str, changes: Sequence[FileChange], sums: Sums) -> bytes:
    try:
        data = (site_packages / path).read_bytes()
    except FileNotFoundError:
        raise FirstwordError(
            f"{site_packages} has no {path}",
            mend="name the engine's site-packages with --site-packages (scripts/up makes an environment)",
            code=Exit.PATCHES,
        ) from None
    if sha256(data) == sums.after:
        found = data.decode("utf-8")
        for change in reversed([change for change in changes if change.path == path]):
            found = apply_change(change.reversed(), found)
        data = found.encode()
    if sha256(data) != sums.before:
        raise FirstwordError(
            f"{path} in {site_packages} is neither the released file nor the patched one",
            mend="reinstall its distribution",
            code=Exit.PATCHES,
        )
    return data


def _licence(site_packages: Path, distribution: str) -> tuple[str, str]:
    """Return a distribution's licence, by its name and in full."""
    found = next(iter(importlib.metadata.distributions(name=distribution, path=[str(site_packages)])), None)
    if found is None:
        raise FirstwordError(
            f"{site_packages} has no {distribution}", mend="name the engine's site-packages", code=Exit.PATCHES
        )
    name = _named(found.metadata)
    files = [file for file in found.files or () if Path(str(file)).name.upper().startswith("LICEN")]
    return name, "\n\n".join(file.read_text(encoding="utf-8") for file in files)


def _named(metadata: Any) -> str:
    return str(metadata.get("License-Expression") or metadata.get("License") or "not declared")


def _unpack(bundle: Path, wanted: Mapping[str, Any]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the wanted files that a zip holds, and what its manifest says of each; a wheel's licence under ``""``."""
    try:
        with zipfile.ZipFile(bundle) as packed:
            names = set(packed.namelist())
            sizes = {name: packed.getinfo(name).file_size for name in names}
            found = {path: packed.read(path) for path in wanted if path in names and sizes[path] <= _LARGEST}
            told = documents.parse_json(packed.read(MANIFEST))["files"] if MANIFEST in names else {}
            for name in names:
                if name.endswith(".dist-info/METADATA"):
                    told[""] = _named(email.parser.HeaderParser().parsestr(packed.read(name).decode("utf-8")))
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError) as error:
        raise FirstwordError(
            f"{bundle} is neither a bundle nor a wheel: {error}",
            mend="make one with --make-bundle, or name a wheel",
            code=Exit.USAGE,
        ) from None
    if not found:
        raise FirstwordError(
            f"{bundle} holds no file that the patches change",
            mend="make a bundle with --make-bundle, or name the wheel of a patched distribution",
            code=Exit.USAGE,
        )
    return found, told
