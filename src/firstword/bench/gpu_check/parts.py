"""Measure part after part in another process, within a budget of time.

A part that crashes, or hangs, takes its process with it and nothing else: the parts after it go on in a new one.
What the budget does not reach is told as not run.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import firstword

WORKER = ("-m", "firstword.bench.gpu_check.worker")
# How an outcome is told: of each part, one.
MEASURED, FAILED, NOT_RUN, NOT_CUT = "measured", "failed", "not run", "cannot be cut"
SKIPPED = "left out"


class Deadline:
    """When all must be done, by a clock that processes share."""

    def __init__(self, seconds: float) -> None:
        self.began = time.monotonic()
        self.at = self.began + seconds

    def left(self) -> float:
        """Return the seconds that are left, at least 0."""
        return max(0.0, self.at - time.monotonic())

    def taken(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self.began


@dataclass
class Outcome:
    """What became of a part: `state`, with `why` where it is not measured, else `result`."""

    state: str
    why: str = ""
    result: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """What a worker needs to know.

    Attributes:
        settings: As JSON: the device, the sizes, how often.
        environment: Over this process's own.
        limit: The most seconds that one part may take.
        worker: Arguments of Python that run it; the settings' and the answers' files follow.
    """

    settings: Mapping[str, Any]
    environment: Mapping[str, str]
    limit: float
    worker: Sequence[str] = WORKER


def measure(names: Sequence[str], job: Job, deadline: Deadline, say: Callable[[str], None]) -> dict[str, Outcome]:
    """Return the outcome of each part, in the order they are named in."""
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as scratch:
        while (left := [name for name in names if name not in found]) and deadline.left() > 0:
            found |= _one_worker(left, job, deadline, say, Path(scratch))
    for name in names:
        found.setdefault(name, Outcome(NOT_RUN, "the budget was used up before it"))
    return {name: found[name] for name in names}


def _one_worker(
    names: Sequence[str], job: Job, deadline: Deadline, say: Callable[[str], None], scratch: Path
) -> dict[str, Outcome]:
    """Return what one process makes of the parts, up to the one that ends it: at least of one part."""
    told, log, settings = scratch / "told", scratch / "log", scratch / "settings.json"
    told.write_text("")
    settings.write_text(json.dumps({**job.settings, "parts": list(names)}))
    path = os.pathsep.join(filter(None, [str(Path(firstword.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    with log.open("w") as messages:
        process = subprocess.Popen(
            [sys.executable, *job.worker, str(settings), str(told)],
            env={**os.environ, "PYTHONPATH": path, **job.environment},
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=subprocess.STDOUT,
        )
        try:
            stopped = _wait(process, told, job.limit, deadline, say)
        finally:
            process.kill()
            process.wait()
    found, begun = _read(told)
    # Before its first part a worker imports PyTorch: if that fails, it is the first part's failure.
    culprit = begun or next((name for name in names if name not in found), None)
    if culprit is not None:
        found[culprit] = stopped or Outcome(FAILED, f"its process ended with {process.returncode}: {_tail(log)}")
    return found


def _wait(
    process: subprocess.Popen[bytes], told: Path, limit: float, deadline: Deadline, say: Callable[[str], None]
) -> Outcome | None:
    """Wait for a worker's end; return why it must be ended, if it must."""
    seen, last = 0, time.monotonic()
    while True:
        ended = process.poll() is not None
        lines = _lines(told)
        if len(lines) > seen:
            for line in lines[seen:]:
                if "begun" in (message := json.loads(line)):
                    say(f"measuring: {message['begun']}")
            seen, last = len(lines), time.monotonic()
        if ended:
            return None
        if deadline.left() <= 0:
            return Outcome(NOT_RUN, "the budget was used up amid it")
        if time.monotonic() - last > limit:
            return Outcome(FAILED, f"it took longer than {limit:.0f} s")
        time.sleep(0.05)


def _read(told: Path) -> tuple[dict[str, Outcome], str | None]:
    """Return the outcomes told, and the part that was begun and not ended."""
    found: dict[str, Outcome] = {}
    begun: str | None = None
    for line in _lines(told):
        message = json.loads(line)
        if "begun" in message:
            begun = message["begun"]
        else:
            begun = None
            found[message["part"]] = Outcome(message["state"], message.get("why", ""), message.get("result", {}))
    return found, begun


def _lines(told: Path) -> list[str]:
    text = told.read_text()
    return text[: text.rfind("\n") + 1].splitlines()  # the last one may be on its way


def _tail(log: Path) -> str:
    lines = log.read_text(errors="backslashreplace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
