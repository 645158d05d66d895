"""Is this engine ready, asked every few seconds and cheap after the first real answer.

Ready means: since it started, this engine has given a good answer to a real request, and nothing
has shown since that it stopped. Neither a busy engine nor one that nobody uses is unready; a frozen
one is. Standard library only, until a real request has to be sent.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from firstword.acceptance import state as memory
from firstword.acceptance.asking import Server, ask, not_ready
from firstword.acceptance.load import Load
from firstword.errors import FirstwordError

UNKNOWN = "unknown"  # an engine whose start nothing tells: no answer of it can be trusted later


@dataclass(frozen=True)
class Limits:
    """Seconds that decide.

    Attributes:
        fresh: A good answer is trusted for so long.
        stall: An engine with requests may move none of its counters for so long; then it is asked.
        hang: An engine with requests may end none of them for so long; then it is asked. A stage that is stuck
            behind one that works on shows only so. The longest answer there is lasts five and a half minutes.
    """

    fresh: float = 120.0
    stall: float = 60.0
    hang: float = 600.0


@dataclass(frozen=True)
class Ready:
    """Why an engine is ready, and whether a real request was sent to find out."""

    why: str
    asked: bool = False


def check(
    server: Server,
    *,
    state: Path,
    record: Path | None = None,
    limits: Limits | None = None,
    patience: float = 0.0,
) -> Ready:
    """Return why the engine is ready.

    Args:
        server: The engine. Its ``timeout`` bounds a real request.
        state: Where this engine's last good answer is remembered.
        record: The supervisor's record of its engine; without it, ``/metrics`` tell the start.
        limits: See `Limits`.
        patience: Seconds to wait while another probe asks for the first answer.

    Raises:
        FirstwordError: It is not (``Exit.NOT_READY``), or it answers badly (``Exit.BAD_ANSWER``).
    """
    limits = limits or Limits()
    server.health()
    seen: Load | None = None
    engine = memory.identity(memory.read_json(record))
    if engine is None:
        seen = server.load()
        engine = f"since {seen.started_at:.2f}" if seen and seen.started_at else UNKNOWN
    known = memory.load(state)
    if known is None or known.engine != engine or engine == UNKNOWN:
        return _first(server, engine, state, patience)
    if known.age < limits.fresh:
        return Ready(f"answered {known.age:.0f} s ago")
    seen = seen or server.load()
    if seen is None or (seen.requests == 0 and seen.successes == known.successes):
        return _again(server, known, state)
    if seen.successes > known.successes:
        memory.save(state, _idle(replace(known, answered_at=time.time(), failure=""), seen))
        return Ready("others' requests succeed")
    return _busy(server, known, seen, state, limits)


def _first(server: Server, engine: str, state: Path, patience: float) -> Ready:
    with memory.asking(state, patience) as allowed:
        if not allowed:
            raise not_ready(f"{server.url}: another probe waits for its first answer")
        known = memory.load(state)
        if known and known.engine == engine != UNKNOWN:
            return Ready(known.answer)  # the other probe has had it meanwhile
        return _ask(server, memory.State(engine), state)


def _again(server: Server, known: memory.State, state: Path) -> Ready:
    with memory.asking(state) as allowed:
        if allowed:
            return _ask(server, known, state)
    # What another probe found before it asked once more counts until it is answered: else the one that asks most of
    # the time would keep a stuck engine ready for the other.
    if known.failure:
        raise not_ready(known.failure)
    return Ready("another probe asks just now")


def _ask(server: Server, known: memory.State, state: Path) -> Ready:
    try:
        report = ask(server)
        report.require_ok()
    except FirstwordError as error:
        if known.answer:  # before the first good answer nothing is remembered
            memory.save(state, replace(known, failure=error.cause))
        raise
    known = replace(known, answered_at=time.time(), answer=known.answer or str(report), failure="")
    memory.save(state, _idle(known, server.load()))
    return Ready(str(report), asked=True)


def _busy(server: Server, known: memory.State, seen: Load, state: Path, limits: Limits) -> Ready:
    now = time.time()
    watched = replace(known, busy_at=known.busy_at or now)
    if not known.moved_at or seen.progress != known.progress:
        watched = replace(watched, progress=seen.progress, moved_at=now)
    if watched != known:
        memory.save(state, watched)
    still, unended = now - watched.moved_at, now - watched.busy_at
    if still >= limits.stall:
        return _doubted(server, watched, state, f"{seen.requests} requests run and nothing has moved for {still:.0f} s")
    if unended >= limits.hang:
        return _doubted(server, watched, state, f"{seen.requests} requests run and none has ended for {unended:.0f} s")
    return Ready(f"busy with {seen.requests} requests")


def _doubted(server: Server, known: memory.State, state: Path, sign: str) -> Ready:
    # The count alone is no proof: vLLM-Omni as released counts a request whose client left until another ends.
    try:
        return _again(server, known, state)
    except FirstwordError as error:
        cause = error.cause.removeprefix(f"{server.url}: ")
        raise FirstwordError(f"{server.url}: {sign}; {cause}", mend=error.mend, code=error.code) from error


def _idle(known: memory.State, seen: Load | None) -> memory.State:
    successes = seen.successes if seen else known.successes
    return replace(known, successes=successes, progress=-1.0, moved_at=0.0, busy_at=0.0)
