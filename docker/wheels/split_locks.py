"""Split both engine locks into what they share and what each has beside: the shared part is one image layer for both.

python split_locks.py REQUIREMENTS OUTPUT    writes common.txt, cpu.txt and cuda.txt
"""

import re
import sys
from pathlib import Path


def entries(lock: Path) -> list[str]:
    """Return a lock's packages, each with its hashes and without comments."""
    lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    return re.findall(r"^\S.*(?:\n[ \t]+.*)*", "\n".join(lines), re.MULTILINE)


def main(requirements: Path, output: Path) -> None:
    """Write the three parts."""
    locks = {device: entries(requirements / f"engine-{device}.txt") for device in ("cpu", "cuda")}
    common = set(locks["cpu"]) & set(locks["cuda"])
    parts = {device: [entry for entry in lock if entry not in common] for device, lock in locks.items()}
    parts["common"] = [entry for entry in locks["cuda"] if entry in common]
    for name, part in parts.items():
        (output / f"{name}.txt").write_text("".join(f"{entry}\n" for entry in part), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
