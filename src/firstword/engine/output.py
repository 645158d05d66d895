"""Lines for stdout and stderr that never hold up who says them.

A terminal that is closed breaks a write, and a pipe that nobody reads blocks it for ever. Neither may keep a
supervisor from ending its engine, or an engine from writing on.
"""

import contextlib
import os
import queue
import threading
import time

ROOM = 10_000  # lines


class Output:
    """Writes lines in order from one thread; those that find no room are counted, and told when there is room again.

    Args:
        out: File descriptor of what an engine says.
        err: File descriptor of what its supervisor says.
    """

    def __init__(self, out: int = 1, err: int = 2) -> None:
        self._out, self._err = out, err
        self._lines: queue.Queue[tuple[int, str]] = queue.Queue(ROOM)
        self._lost = 0
        self._broken: set[int] = set()
        threading.Thread(target=self._write, daemon=True).start()

    def out(self, line: str) -> None:
        """Write a line to stdout."""
        self._put(self._out, line)

    def err(self, line: str) -> None:
        """Write a line to stderr."""
        self._put(self._err, line)

    def flush(self, seconds: float = 2.0) -> None:
        """Wait until all is written, at most so long."""
        deadline = time.monotonic() + seconds
        while self._lines.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.01)

    def _put(self, file: int, line: str) -> None:
        try:
            self._lines.put_nowait((file, line))
        except queue.Full:
            self._lost += 1

    def _write(self) -> None:
        while True:
            file, line = self._lines.get()
            if self._lost:
                line, self._lost = f"{line}\nfirstword serve: {self._lost} lines were not read in time", 0
            if file not in self._broken:
                # Not through sys.stdout: its lock, held by a write that waits, would stop the interpreter's end.
                self._send(file, line.encode("utf-8", "backslashreplace") + b"\n")
            self._lines.task_done()

    def _send(self, file: int, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(file, data) :]
        except BrokenPipeError:
            self._broken.add(file)
        except OSError:  # a full disk: the next line may find room
            with contextlib.suppress(OSError):
                os.write(file, b"\n")
