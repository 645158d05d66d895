"""Compile every Python file below a folder that has no such bytecode yet.

The bytecode is `unchecked-hash`: Python takes it without looking at its source, whatever times an image gives files.
So it must never be stale; `firstword patches apply` deletes that of each file it changes.

python compile_bytecode.py FOLDER
"""

import os
import py_compile
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from importlib.util import MAGIC_NUMBER, cache_from_source
from multiprocessing import get_context
from pathlib import Path

# Bit 0: made from a hash of the source; bit 1 not set: the hash is not looked at.
HEAD = MAGIC_NUMBER + (1).to_bytes(4, "little")


def is_compiled(path: str) -> bool:
    """Return whether there is such bytecode; what an import leaves is good for one time of its source only."""
    try:
        with Path(cache_from_source(path)).open("rb") as file:
            return file.read(len(HEAD)) == HEAD
    except FileNotFoundError:
        return False


def compile_file(path: str) -> bool:
    """Compile one file; False for those that packages bring and that are no Python 3.12 (templates, tests)."""
    warnings.simplefilter("ignore")
    try:
        py_compile.compile(path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    except (py_compile.PyCompileError, UnicodeDecodeError, ValueError):
        return False
    return True


def main(folder: Path) -> None:
    """Compile what is missing, on all cores."""
    files = [str(file) for file in sorted(folder.rglob("*.py")) if not is_compiled(str(file))]
    # Each part in a process of its own: bytecode tells which strings are shared with what the process has compiled
    # before, and which process takes which part is chance.
    fresh = get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=fresh, max_tasks_per_child=1) as pool:
        done = sum(pool.map(compile_file, files, chunksize=256))
    print(f"compiled {done} files in {folder}, left out {len(files) - done} that are no Python 3.12")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
