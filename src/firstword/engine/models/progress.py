"""Progress of a long transfer: a bar on a terminal, a line every ten seconds elsewhere."""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

Report = Callable[[str], None]
"""Takes one line of progress."""


class Stopped(Exception):  # noqa: N818  # not an error: another transfer failed, or the user stopped
    """Raised inside a transfer that nobody waits for any more."""


class Progress:
    """Bytes done out of a total, from several threads.

    Args:
        what: For example ``downloading step-audio-2-mini``.
        total: Bytes.
        done: Bytes that were there already.
        report: Takes the lines, when standard error is no terminal.
    """

    def __init__(self, what: str, total: int, done: int, report: Report) -> None:
        self._what = what
        self._total = total
        self._done = self._first = done
        self._report = report
        self._lock = threading.Lock()
        self._started = self._told = time.monotonic()
        self._stop = threading.Event()
        self._bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm  # type: ignore[import-untyped]

            self._bar = tqdm(desc=what, total=total, initial=done, unit="B", unit_scale=True, file=sys.stderr)

    def add(self, size: int) -> None:
        """Count ``size`` more bytes; fewer, when a server made a transfer start again.

        Raises:
            Stopped: `stop` was called.
        """
        if self._stop.is_set():
            raise Stopped
        with self._lock:
            self._done += size
            if self._bar is not None:
                self._bar.update(size)
            elif time.monotonic() - self._told >= 10:
                self._told = time.monotonic()
                self._report(self._line())

    def stop(self) -> None:
        """Make every transfer end at its next byte."""
        self._stop.set()

    def close(self) -> None:
        """Leave the terminal in order."""
        if self._bar is not None:
            self._bar.close()

    def bar_class(self, **_: Any) -> "_Bar":
        """Return a bar that counts here; what huggingface_hub's ``tqdm_class`` wants."""
        return _Bar(self)

    def _line(self) -> str:
        speed = (self._done - self._first) / max(time.monotonic() - self._started, 1e-3)
        left = (self._total - self._done) / speed if speed > 0 else None
        return f"{self._what}: {self._done / 1e9:.2f} of {self._total / 1e9:.2f} GB, {speed / 1e6:.1f} MB/s" + (
            f", {left / 60:.0f} min left" if left is not None else ""
        )


class _Bar:
    """The part of tqdm that huggingface_hub uses."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def update(self, size: int = 1) -> None:
        self._progress.add(size)

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
