"""Make a step's layer the same bytes whenever it runs: all that the step made gets one and the same time.

python seal_layer.py SECONDS            since when, as `date +%s` told at the step's start
python seal_layer.py SECONDS MANIFEST   write a line for each file too, as sha256sum does: what is in the layer
"""

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The first that zip files can tell: 1980-01-01.
TIME = 315532800
# Mount points are made just before the step, and what earlier steps made is of 1980 by now.
MARGIN = 5


def made_since(folder: str, begun: float) -> Iterator[str]:
    """Yield what is newer below a folder, itself included; what is mounted there is none of the layer's."""
    device = os.lstat(folder).st_dev
    pending = [folder]
    while pending:
        path = pending.pop()
        told = os.lstat(path)
        if told.st_dev != device:
            continue
        if told.st_mtime >= begun:
            yield path
        if stat.S_ISDIR(told.st_mode):
            pending += [entry.path for entry in os.scandir(path)]


def line(path: str) -> str:
    """Return a file's line of a manifest."""
    with Path(path).open("rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path}\n"


def main(begun: int, manifest: Path | None) -> None:
    """Write the manifest, then set the times."""
    found = sorted(made_since("/", begun - MARGIN))
    if manifest:
        files = [path for path in found if stat.S_ISREG(os.lstat(path).st_mode)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            manifest.parent.mkdir(parents=True, exist_ok=True)
            manifest.write_text("".join(pool.map(line, files)), encoding="utf-8")
        found = sorted({*found, str(manifest), str(manifest.parent)})
    for path in found:
        os.utime(path, (TIME, TIME), follow_symlinks=False)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
