"""What was seen: each wait of the host with its kind and its line, by phase of a workload."""

import contextlib
import linecache
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

READ = "blocking read"  # the host waits until the device has computed what it asks for
WRITE = "blocking write"  # a copy from pageable memory to the device, after which the host waits
ASYNC = "asynchronous copy"  # either way, the host goes on
KINDS = (READ, WRITE, ASYNC)

# Frames of these files are not where a read is asked for.
_LIBRARIES = (str(Path(torch.__file__).parent), contextlib.__file__, threading.__file__)
_HERE = tuple(str(Path(__file__).with_name(f"{name}.py")) for name in ("counting", "held", "claims", "rules"))


@dataclass(frozen=True, order=True)
class Event:
    """One way in which a line made the host wait, or copied."""

    kind: str
    what: str
    where: str  # path from site-packages on, and line
    line: str  # its text


@dataclass
class Counts:
    """Events by phase, the operators that were called, and those that could not be passed.

    Only what happens within `phase` is counted: loading is not. Threads that the workload starts are.
    """

    events: dict[str, Counter[Event]] = field(default_factory=dict)
    operators: set[str] = field(default_factory=set)
    unpassed: dict[str, str] = field(default_factory=dict)
    _phase: str | None = None

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens within, under this name."""
        before, self._phase = self._phase, name
        self.events.setdefault(name, Counter())
        try:
            yield
        finally:
            self._phase = before

    def note(self, kind: str, what: str) -> None:
        """Count one event at the innermost line that is neither PyTorch's nor the counter's."""
        if self._phase is not None:
            if threading.current_thread() is not threading.main_thread():
                what += ", in another thread"
            self.events[self._phase][Event(kind, what, *_caller())] += 1

    def total(self, phase: str, kind: str) -> int:
        """Return how many events of a kind a phase had."""
        return sum(count for event, count in self.events[phase].items() if event.kind == kind)


def _caller() -> tuple[str, str]:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((*_LIBRARIES, *_HERE)):
        frame = frame.f_back
    file, number = frame.f_code.co_filename, frame.f_lineno
    return f"{_short(file)}:{number}", linecache.getline(file, number).strip()


def _short(file: str) -> str:
    """Return a path as a package knows it, the same in each tree."""
    roots = sorted((entry for entry in sys.path if entry and file.startswith(f"{entry}/")), key=len)
    return file[len(roots[-1]) + 1 :] if roots else file
