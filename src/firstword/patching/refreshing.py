"""Write the series anew: after a new release of what it changes, or after work on one patch."""

import json
from collections.abc import Callable
from pathlib import Path

from firstword.patching.applying import compose, present, read
from firstword.patching.diffs import render
from firstword.patching.series import CHECKSUMS, Patch, Series, Sums, load_series, sha256
from firstword.patching.trees import stock


def refresh(series: Series, site_packages: Path, *, patch: str | None = None, edited: Path | None = None) -> Series:
    """Rewrite the patches' diffs and `checksums.json` from the released files.

    Hunks whose lines still stand exactly once are moved to where they stand; any other is named,
    to be mended by hand. Headers stay as they are: change `Distribution` first for a new version.

    Args:
        series: The series, loaded without checksums or with them.
        site_packages: Released packages; patched ones too if the series' checksums know them.
        patch: A patch whose diff is to be made anew from `edited`.
        edited: A tree of the series up to and with `patch`, with your edits
            (`firstword patches tree DIR --upto PATCH`).

    Returns:
        The series as written.

    Raises:
        FirstwordError: A distribution has another version, or a hunk finds no place.
    """
    present(series, site_packages)
    paths = sorted({change.path for p in series.patches for change in p.changes})
    name = series.patch(patch).name if patch else None
    if edited is not None:
        paths = sorted({*paths, *_edited_paths(series, site_packages, edited)})
    before = {path: _released(series, site_packages, path) for path in paths}
    texts = dict(before)
    written: dict[str, str] = {}
    for item in series.patches:
        diff = ""
        for path in paths:
            after = _after(item, path, texts[path])
            if edited is not None and item.name == name:
                after = (edited / path).read_bytes().decode("utf-8")
            if after != texts[path]:
                diff += render(path, texts[path], after)
            texts[path] = after
        written[item.name] = item.head + diff
    sums: dict[str, dict[str, dict[str, str]]] = {}
    changed_by = _changed_by(series, written)
    for path in paths:
        if before[path] != texts[path]:
            pair = {"before": sha256(before[path].encode()), "after": sha256(texts[path].encode())}
            sums.setdefault(changed_by(path), {})[path] = pair
    for item in series.patches:
        (series.root / item.name).write_bytes(written[item.name].encode())
    (series.root / CHECKSUMS).write_text(json.dumps(sums, indent=1, sort_keys=True) + "\n", "utf-8")
    return load_series(series.root)


def _after(item: Patch, path: str, text: str) -> str:
    return compose((item,), path, text, relocate=True)


def _released(series: Series, site_packages: Path, path: str) -> str:
    data = read(site_packages, path)
    known: Sums | None = series.sums.get(path)
    if known is not None and sha256(data) == known.after:
        return stock(series, site_packages, path, known)
    return data.decode("utf-8")


def _edited_paths(series: Series, site_packages: Path, edited: Path) -> set[str]:
    packages = {change.path.partition("/")[0] for p in series.patches for change in p.changes}
    known = series.sums
    found = set()
    for package in packages:
        for file in (edited / package).rglob("*.py"):
            path = file.relative_to(edited).as_posix()
            if path not in known and file.read_bytes() != (site_packages / path).read_bytes():
                found.add(path)
    return found


def _changed_by(series: Series, written: dict[str, str]) -> Callable[[str], str]:
    by_path = {}
    for item in series.patches:
        for line in written[item.name].splitlines():
            if line.startswith("+++ b/"):
                by_path[line.removeprefix("+++ b/")] = item.header["Distribution"]
    return by_path.__getitem__
