"""Start an engine, hold "ready" back until its first real answer, and end it when it stops answering.

Three states are kept apart: *alive* (the process runs), *ready* (this engine has given a valid
answer to a real request since it started) and *ended* (with its cause). The supervisor never
restarts an engine: that is the restart policy's work, and it needs a distinct exit code to act on.
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from firstword.engine.fatal import LastWords
from firstword.engine.process import EngineProcess, adopt_orphans
from firstword.errors import Exit, FirstwordError


@dataclass(frozen=True)
class Timing:
    """Seconds the supervisor waits.

    Attributes:
        start: From the start to a listening server.
        first_answer: From then to the first valid answer.
        check: Between two checks of a ready engine.
        stall: How long checks may fail in a row before the engine is ended.
        grace: From SIGTERM to SIGKILL.
    """

    start: float = 900.0
    first_answer: float = 600.0
    check: float = 10.0
    stall: float = 90.0
    grace: float = 20.0


class Supervisor:
    """Runs one engine from start to end.

    Args:
        command: The engine's command line.
        environment: Its whole environment.
        record: JSON file that tells others of this engine (pid, started_at, url, model, ready_at); removed at the end.
        about: What to write there beside pid and times (url, model).
        alive: Returns True once the server listens.
        port: Where; a server of somebody else that answers there is not waited on. None trusts whoever answers.
        first_answer: Asks for the first real answer; raises FirstwordError when it is bad or none comes.
        still_answers: Returns None while the engine answers, else the cause in one line.
        timing: See `Timing`.
        say: Where the supervisor's own lines go.
        show: Where the engine's lines go. Neither may wait.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        record: Path,
        about: Mapping[str, object],
        alive: Callable[[], bool],
        first_answer: Callable[[], str],
        still_answers: Callable[[], str | None],
        timing: Timing,
        say: Callable[[str], None],
        show: Callable[[str], None],
        port: int | None = None,
    ) -> None:
        self._command, self._environment = command, environment
        self._record, self._about = record, dict(about)
        self._alive, self._first_answer, self._still_answers = alive, first_answer, still_answers
        self._timing, self._say, self._show, self._port = timing, say, show, port
        self._words = LastWords()
        self._asked_to_stop = threading.Event()
        self._stop_signal = 0

    def run(self) -> int:
        """Run until the engine ends or a signal asks to stop.

        Returns:
            0 after SIGTERM or SIGINT.

        Raises:
            FirstwordError: The engine ended by itself, did not start, gave a bad first answer, or stopped answering.
        """
        adopt_orphans()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        started = time.time()
        engine = EngineProcess(self._command, self._environment, self._on_line)
        try:
            self._write(engine, started_at=started)
            self._until_alive(engine)
            if not self._asked_to_stop.is_set():
                answer = self._in_background(engine, self._first_answer, self._timing.first_answer)
                if answer is not None:
                    self._write(engine, started_at=started, ready_at=time.time())
                    self._say(f"ready after {time.time() - started:.1f} s: {answer}")
                    self._watch(engine)
            return int(Exit.OK)
        finally:
            try:
                if self._asked_to_stop.is_set():
                    self._say(f"stopping ({signal.Signals(self._stop_signal).name})")
            finally:
                engine.stop(self._timing.grace)
                self._record.unlink(missing_ok=True)

    def _on_line(self, line: str) -> None:
        self._words.read(line)
        self._show(line)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop_signal = number
        self._asked_to_stop.set()

    def _write(self, engine: EngineProcess, **times: float) -> None:
        self._record.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._record.with_suffix(".tmp")
        temporary.write_text(json.dumps({"pid": engine.pid, **self._about, **times}) + "\n", encoding="utf-8")
        temporary.replace(self._record)

    def _raise_if_ended(self, engine: EngineProcess) -> None:
        code = engine.poll()
        if code is not None and not self._asked_to_stop.is_set():
            engine.drain()
            raise self._words.error(code)

    def _until_alive(self, engine: EngineProcess) -> None:
        deadline = time.monotonic() + self._timing.start
        while not self._asked_to_stop.wait(0.25):
            self._raise_if_ended(engine)
            if self._alive() and (self._port is None or engine.listens_on(self._port)):
                return
            if time.monotonic() > deadline:
                raise FirstwordError(
                    f"the engine did not listen within {self._timing.start:.0f} s",
                    mend="its last lines tell where it waits; a slow disk or cold cache needs a longer --start-timeout",
                    code=Exit.START_TIMEOUT,
                )

    def _in_background(self, engine: EngineProcess, ask: Callable[[], str], seconds: float) -> str | None:
        """Return ``ask()``'s result, or None when asked to stop; an engine that dies meanwhile is noticed at once."""
        result: list[str] = []
        failure: list[BaseException] = []

        def target() -> None:
            try:
                result.append(ask())
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        deadline = time.monotonic() + seconds
        while thread.is_alive() and not self._asked_to_stop.is_set():
            thread.join(0.1)
            self._raise_if_ended(engine)
            if time.monotonic() > deadline:
                raise FirstwordError(
                    f"the engine listens but gave no first answer within {seconds:.0f} s",
                    mend="its last lines tell where it waits; a slow machine needs a longer --answer-timeout",
                    code=Exit.UNRESPONSIVE,
                )
        if self._asked_to_stop.is_set():
            return None
        if failure:
            # A dying engine breaks the request first and ends a moment later: its own words tell more.
            for _ in range(30):
                self._raise_if_ended(engine)
                time.sleep(0.1)
            raise failure[0]
        return result[0]

    def _watch(self, engine: EngineProcess) -> None:
        failing_since: float | None = None
        next_check = time.monotonic() + self._timing.check
        while not self._asked_to_stop.wait(0.5):
            self._raise_if_ended(engine)
            if time.monotonic() < next_check:
                continue
            cause = self._still_answers()
            next_check = time.monotonic() + self._timing.check
            if cause is None:
                failing_since = None
                continue
            failing_since = failing_since or time.monotonic()
            lasted = time.monotonic() - failing_since
            self._say(f"not answering for {lasted:.0f} s: {cause}")
            if lasted >= self._timing.stall:
                raise FirstwordError(
                    f"the engine stopped answering: {cause}",
                    mend="it was ended so that a restart policy can start it anew; its last lines may tell why",
                    code=Exit.UNRESPONSIVE,
                )
