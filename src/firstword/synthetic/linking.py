"""Equal files of neighbouring checkpoints take their space once."""

import filecmp
import os
from collections.abc import Iterable
from pathlib import Path


def link_equal_files(folder: Path, neighbours: Iterable[Path]) -> int:
    """Replace files of ``folder`` by hard links to equal files at the same place in a neighbour.

    A file system that cannot link keeps the copy.

    Returns:
        How many files were linked.
    """
    others = list(neighbours)
    linked = 0
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        for other in others:
            twin = other / file.relative_to(folder)
            if twin.is_file() and filecmp.cmp(file, twin, shallow=False) and _link(twin, file):
                linked += 1
                break
    return linked


def _link(existing: Path, replaced: Path) -> bool:
    spare = replaced.with_name(replaced.name + ".link")
    try:
        os.link(existing, spare)
    except OSError:
        return False
    spare.replace(replaced)
    return True
