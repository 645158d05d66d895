"""Progress for people and for logs. Standard library only."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_BAR = 24


def say(line: str) -> None:
    """Print one line on stderr, at once."""
    print(line, file=sys.stderr, flush=True)


class Progress:
    """One line that is redrawn on a terminal, and one line every ten seconds elsewhere."""

    def __init__(self, title: str, *, expected: float | None = None) -> None:
        self._title, self._expected = title, expected
        self._started = self._last = time.monotonic()
        self._terminal = sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def update(self, detail: str = "") -> None:
        """Show how long it has taken, and ``detail``; with an expected time, a bar."""
        line = f"{self._title} {self.seconds:4.0f} s"
        if self._expected:
            # The bar is time against the usual time, so it stops short of full until the work really is done.
            part = min(self.seconds / self._expected, 0.97)
            line += f" [{'#' * int(part * _BAR):<{_BAR}}]"
        line = f"{line} {detail}".rstrip()
        if self._terminal:
            sys.stderr.write(f"\r\x1b[2K{line[:118]}")
            sys.stderr.flush()
        elif time.monotonic() - self._last >= 10:
            say(line)
            self._last = time.monotonic()

    def end(self, word: str = "done") -> None:
        """Finish the line."""
        if self._terminal:
            sys.stderr.write("\r\x1b[2K")
        say(f"{self._title} {word} in {self.seconds:.1f} s")


@contextmanager
def step(title: str) -> Iterator[Callable[[str], None]]:
    """Announce a step that prints its own progress, and how long it took."""
    say(f"==> {title}")
    started = time.monotonic()
    yield say
    say(f"    {time.monotonic() - started:.1f} s")
