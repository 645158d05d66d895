"""What a tree of processes uses: proportional memory and CPU time, sampled from ``/proc``."""

import os
import threading
import time
from pathlib import Path

from firstword.engine.process import descendants

_TICKS = os.sysconf("SC_CLK_TCK")


def memory(root: int) -> int:
    """Return the bytes a process and its descendants hold; pages they share are counted once (PSS)."""
    total = 0
    for pid in [root, *descendants(root)]:
        try:
            rollup = (Path("/proc") / str(pid) / "smaps_rollup").read_text(encoding="utf-8")
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def cpu_seconds(root: int) -> float:
    """Return user and system time of a process, its living descendants, and those they have waited for."""
    total = 0
    for pid in [root, *descendants(root)]:
        try:
            fields = (Path("/proc") / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / _TICKS


class Peak:
    """Samples `memory` every half second until stopped."""

    def __init__(self, roots: list[int]) -> None:
        self.bytes = dict.fromkeys(roots, 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stop.is_set():
            for root in self.bytes:
                self.bytes[root] = max(self.bytes[root], memory(root))
            time.sleep(0.5)

    def stop(self) -> dict[int, int]:
        """Return each tree's peak in bytes."""
        self._stop.set()
        self._thread.join()
        return self.bytes
