"""One engine as a child process: its own group, its output read line by line, nothing left behind."""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant (``PR_SET_CHILD_SUBREAPER``), so that all can be reaped."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class EngineProcess:
    """A command in a session of its own, whose output goes through a callback.

    Args:
        command: Program and arguments.
        environment: The child's whole environment.
        on_line: Called with each line of its merged output, without the newline, from a reader thread.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        libc = ctypes.CDLL(None)

        def die_with_parent() -> None:  # runs in the child, between fork and exec
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

        self._child = subprocess.Popen(
            list(command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # one prctl call, no Python state
        )
        assert self._child.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._child.stdout,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The child's process id, also its group's."""
        return self._child.pid

    def poll(self) -> int | None:
        """Return the exit code when the child has ended (negative: the signal's number), else None."""
        return self._child.poll()

    def _read(self, stream: IO[bytes]) -> None:
        for raw in stream:
            try:
                self._on_line(raw.decode("utf-8", "replace").rstrip("\r\n"))
            except Exception:  # noqa: S112  # whoever takes the lines may fail; an engine that nobody reads would hang
                continue

    def drain(self, seconds: float = 2.0) -> None:
        """Wait until the output has been read to its end, at most ``seconds``: a worker may still hold the pipe."""
        self._reader.join(seconds)

    def listens_on(self, port: int) -> bool:
        """Return whether the child, or one that it started, listens on a TCP port; another's server does not count."""
        sockets = _listening(port)
        return any(sockets & _sockets(pid) for pid in [self.pid, *descendants(self.pid)])

    def signal(self, number: int) -> None:
        """Send a signal to the child and to all it started."""
        for group in self._groups():
            try:
                os.killpg(group, number)
            except ProcessLookupError:
                continue

    def stop(self, grace: float) -> None:
        """End the child and all it started: SIGTERM to the child, SIGKILL to every group after ``grace`` seconds."""
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(grace)
            except subprocess.TimeoutExpired:
                pass
        self.signal(signal.SIGKILL)
        self._child.wait()
        _reap(deadline=time.monotonic() + 5)

    def _groups(self) -> set[int]:
        """Return the process groups of the child and its living descendants: a worker may have made its own."""
        groups = {self._child.pid}
        for pid in descendants(os.getpid()):
            try:
                if os.getsid(pid) != os.getsid(0):
                    groups.add(os.getpgid(pid))
            except ProcessLookupError:
                continue
        return groups


def descendants(pid: int) -> list[int]:
    """Return the ids of all living descendants of ``pid``, read from ``/proc``."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # names only, no paths needed
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def _listening(port: int) -> set[str]:
    """Return the listening TCP sockets on a port, as links in ``/proc/PID/fd`` name them."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:  # noqa: PTH123
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        found |= {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port}
    return found


def _sockets(pid: int) -> set[str]:
    found = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            try:
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))  # noqa: PTH115
            except OSError:
                continue
    except OSError:
        pass
    return found


def end_group(process: "subprocess.Popen[bytes]", seconds: float = 10.0) -> None:
    """End a process that leads a group, and all in it: asked first, killed after ``seconds``."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            process.poll()
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.2)


def _reap(deadline: float) -> None:
    """Collect ended children until none is left or the deadline has passed."""
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.05)
