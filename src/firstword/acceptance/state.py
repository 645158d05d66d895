"""What is remembered between two probes of one engine. Standard library only.

Two small JSON files: the supervisor's record of its engine (``engine-<port>.json``: pid,
started_at, url, model) and the probe's own state (``probe-<port>.json``). A success counts only for
the start of the engine that gave it.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from firstword import documents, paths
from firstword.acceptance import plain


def run_dir() -> Path:
    """Return the folder of both files: ``FIRSTWORD_RUN_DIR`` (a tmpfs in a container), else home's ``run``."""
    given = os.environ.get("FIRSTWORD_RUN_DIR")
    return Path(given) if given else paths.home() / "run"


def record_file(url: str) -> Path:
    """Return where the supervisor of the engine at ``url`` leaves its record."""
    return run_dir() / f"engine-{plain.address(url)[2]}.json"


def state_file(url: str) -> Path:
    """Return where the probe of ``url`` leaves its state."""
    return run_dir() / f"probe-{plain.address(url)[2]}.json"


def read_json(path: Path | None) -> dict[str, Any]:
    """Return the object in ``path``; an empty one when it is missing or damaged."""
    if path is None:
        return {}
    try:
        document = documents.read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def identity(record: dict[str, Any]) -> str | None:
    """Return what tells one start of an engine from every other, or None."""
    if "pid" in record and "started_at" in record:
        return f"pid {record['pid']} since {record['started_at']}"
    return None


@dataclass(frozen=True)
class State:
    """What is known of one engine.

    Attributes:
        engine: The start it belongs to, as `identity` says it.
        answered_at: When it last gave a good answer, or made other requests succeed; seconds since the epoch.
        answer: The first good answer in one line.
        successes: Requests that had succeeded then.
        progress: `Load.progress` as last seen while requests ran.
        moved_at: When it was first seen so; 0 while nothing runs.
        busy_at: Since when requests run and none succeeds; 0 while nothing runs.
        failure: Why the last real request got no good answer; empty after a good one.
    """

    engine: str
    answered_at: float = 0.0
    answer: str = ""
    successes: int = 0
    progress: float = -1.0
    moved_at: float = 0.0
    busy_at: float = 0.0
    failure: str = ""

    @property
    def age(self) -> float:
        """Seconds since the last good answer; a time in the future (a clock set back) is no answer."""
        age = time.time() - self.answered_at
        return age if age >= 0 else float("inf")


def load(path: Path) -> State | None:
    """Return the state in ``path``, or None when there is none that can be read."""
    document = read_json(path)
    for field in fields(State):
        kinds = str if field.type is str else (int, float)
        if not isinstance(document.get(field.name), kinds):
            return None
    return State(**{field.name: document[field.name] for field in fields(State)})


def save(path: Path, state: State) -> None:
    """Write ``state`` so that a reader sees the old or the new one, never a half.

    Where it cannot be written (a full disk), the next check asks a real request again: that costs time, not the engine.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(asdict(state)) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def asking(path: Path, patience: float = 0.0) -> Iterator[bool]:
    """Hold the right to send real requests; yields False when another probe holds it longer than ``patience`` s."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.with_suffix(".lock").open("w")
    except OSError:  # nothing can be written there: two probes may then ask at once
        yield True
        return
    with file:
        yield _locked(file.fileno(), time.monotonic() + patience)


def _locked(file: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.1)
        else:
            return True
