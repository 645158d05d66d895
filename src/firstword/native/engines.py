"""Run engines in the background and know what became of them. Standard library only."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from firstword import documents, paths
from firstword.errors import Exit, FirstwordError


@dataclass(frozen=True)
class Engine:
    """One engine to run: what it serves and where.

    Attributes:
        model: A catalogue name.
        port: On 127.0.0.1.
    """

    model: str
    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def record(self) -> Path:
        """What its supervisor tells of it: pid, started_at, url, model and, once ready, ready_at."""
        return paths.home() / "run" / f"engine-{self.port}.json"

    @property
    def started(self) -> Path:
        """What this module wrote when it started the supervisor."""
        return paths.home() / "run" / f"started-{self.port}.json"

    @property
    def log(self) -> Path:
        """The output of the engine and its supervisor."""
        return paths.home() / "logs" / f"{self.model}.log"

    def ready(self) -> bool:
        """Return whether its supervisor has seen its first real answer."""
        return "ready_at" in _read(self.record)

    def supervisor(self) -> int | None:
        """Return the supervisor's process id while it runs."""
        pid = _read(self.started).get("pid")
        return pid if isinstance(pid, int) and _is_mine(pid) else None


def start(engine: Engine, environment: Path, arguments: list[str]) -> "subprocess.Popen[bytes]":
    """Start an engine's supervisor.

    Raises:
        FirstwordError: Something listens on the port.
    """
    command = [str(environment / "bin/firstword"), "serve", engine.model, "--port", str(engine.port), *arguments]
    return launch(engine, command, {})


def launch(engine: Engine, command: Sequence[str], settings: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start a process in a session of its own; its output goes to the log.

    Raises:
        FirstwordError: Something listens on the port.
    """
    require_free(engine)
    for folder in (engine.log.parent, engine.record.parent):
        folder.mkdir(parents=True, exist_ok=True)
    engine.record.unlink(missing_ok=True)
    with engine.log.open("wb") as log:
        child = subprocess.Popen(
            command,
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    engine.started.write_text(json.dumps({"pid": child.pid, "model": engine.model}) + "\n", encoding="utf-8")
    return child


def require_free(engine: Engine) -> None:
    """Raise when the engine's port cannot be bound.

    Raises:
        FirstwordError: The port is taken.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", engine.port))
        except OSError as error:
            raise FirstwordError(
                f"port {engine.port} is taken ({error.strerror})",
                mend="stop what listens there (scripts/up --stop, when it is firstword), or choose other ports: --help",
                code=Exit.PORT_IN_USE,
            ) from error


def running() -> list[Engine]:
    """Return what was started here and still runs, whatever its port."""
    found = []
    for file in sorted((paths.home() / "run").glob("started-*.json")):
        port, model = file.stem.rpartition("-")[2], _read(file).get("model")
        if port.isdecimal() and isinstance(model, str) and Engine(model, int(port)).supervisor() is not None:
            found.append(Engine(model, int(port)))
    return found


def stop_all(seconds: float = 40.0, *, only: Collection[int] | None = None) -> list[str]:
    """Stop what was started here, and return its models. SIGTERM first; SIGKILL for what is left.

    Args:
        seconds: From one to the other.
        only: The ports of those to stop; None for all.
    """
    stopped = []
    run = paths.home() / "run"
    for file in sorted(run.glob("started-*.json")):
        told = _read(file)
        port = file.stem.rpartition("-")[2]
        if not port.isdecimal() or (only is not None and int(port) not in only):
            continue
        engine = Engine(str(told.get("model", "?")), int(port))
        pid = engine.supervisor()
        child = _read(engine.record).get("pid")
        if pid is not None:
            stopped.append(engine.model)
            _end(pid, seconds)
        # The supervisor ends its engine; this is for one that was itself killed.
        if isinstance(child, int):
            _kill_session(child)
        for leftover in (file, engine.record, run / f"probe-{engine.port}.json"):
            leftover.unlink(missing_ok=True)
    return stopped


def last_words(engine: Engine, lines: int = 12) -> str:
    """Return what tells why an engine ended: its supervisor's last message, else the log's last lines."""
    try:
        text = engine.log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"no log in {engine.log}"
    for number in range(len(text) - 1, -1, -1):
        if text[number].startswith("firstword serve: ") and number + 1 < len(text) and "mend:" in text[number + 1]:
            return "\n".join(text[number:])
    return "\n".join(text[-lines:])


def _end(pid: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    try:
        os.kill(pid, signal.SIGTERM)
        while time.monotonic() < deadline and _is_mine(pid):
            time.sleep(0.1)
        if _is_mine(pid):
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _kill_session(session: int) -> None:
    """Kill what is left of an engine's session. Its id may be another's by now, so only our own environments' count."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            if int(fields[3]) == session and _runs_our_python(entry):
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            continue


def _runs_our_python(entry: Path) -> bool:
    program = Path(os.fsdecode((entry / "cmdline").read_bytes().partition(b"\0")[0]))
    return program.is_absolute() and program.parent.resolve().is_relative_to(paths.home().resolve())


def _is_mine(pid: int) -> bool:
    """Return whether a process is alive and a `firstword serve` or `gateway`: an id may have been used again."""
    try:
        state = (Path("/proc") / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[0]
        words = (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return state != b"Z" and bool({b"serve", b"gateway"} & {*words}) and any(w.endswith(b"/firstword") for w in words)


def _read(file: Path) -> dict[str, object]:
    try:
        told = documents.read_json(file)
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
