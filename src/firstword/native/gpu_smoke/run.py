"""The order of a run: build, start, try, keep what tells of it, take down. Standard library only."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from firstword.errors import Exit, FirstwordError
from firstword.native import compose
from firstword.native.compose import Compose
from firstword.native.console import Progress, say
from firstword.native.gpu_smoke import host
from firstword.native.gpu_smoke.report import Report

# Each container may take 40 s to stop.
_DOWN_SECONDS = 180


@dataclass(frozen=True)
class Limits:
    """Seconds that each step may take."""

    build: float
    ready: float
    smoke: float


class Run:
    """One compose project that is tried and taken down.

    Args:
        files: Compose files.
        settings: Its project's name and port.
        logs: Folder for logs.
        down_options: Further options of `docker compose down`.
    """

    def __init__(
        self, files: Sequence[str], settings: Mapping[str, str], logs: Path, down_options: Sequence[str]
    ) -> None:
        self._stack = Compose(files, settings, logs, "--ready-timeout")
        self._logs = logs
        self._down_options = down_options

    def all(self, report: Report, limits: Limits, *, build: bool, keep: bool) -> None:
        """Do every step, and whatever happens keep the logs, take the stack down and write the report.

        Args:
            report: Is filled.
            limits: Of each step.
            build: Whether the images are built first.
            keep: Whether a stack that passed is left running.

        Raises:
            FirstwordError: What failed.
        """
        ended: BaseException | None = None
        try:
            self._steps(report, limits, build=build)
        except BaseException as error:
            ended = error
        with _undisturbed():
            self._keep_logs()
            if not keep or ended is not None:
                try:
                    with report.step("down"):
                        self.down()
                except FirstwordError as error:
                    ended = ended or error
            report.end(ended)
        if ended is not None:
            raise ended

    def down(self) -> None:
        """Take the project down; nothing of it is left but its checkpoints, and not those where options say so.

        Raises:
            FirstwordError: It could not be.
        """
        arguments = ("down", "--remove-orphans", *self._down_options)
        say(f"==> {self._stack.shown(*arguments)}")
        done = self._stack.run(*arguments, seconds=_DOWN_SECONDS)
        if done.returncode != 0:
            raise FirstwordError(
                f"the containers could not be taken down: {compose.last_line(done.stderr)}",
                mend="scripts/gpu-smoke --down, once the Docker engine answers",
                code=Exit.ENVIRONMENT,
            )

    def _steps(self, report: Report, limits: Limits, *, build: bool) -> None:
        config = self._stack.config()
        report.note("models", models := host.models(config))
        if not report.rehearsal and (made_up := [name for name in models if name.endswith("-synthetic")]):
            raise FirstwordError(
                f"{made_up[0]} has made-up weights, which say nothing of a GPU host",
                mend="name a published model in .env, or use --rehearse",
                code=Exit.CONFIG,
            )
        report.note("host", host.told())
        if build and compose.missing(config):
            compose.require_room()
        with report.step("down what an earlier run left"):
            self.down()
        if build:
            with report.step("build"):
                self._build([*config["services"], "smoke"], limits.build)
        report.note("images", host.images([service["image"] for service in config["services"].values()]))
        with report.step("up"):
            self._stack.up(limits.ready, {}, "--no-build")
        before = self._stack.containers()
        with report.step("smoke"):
            self._smoke(report, limits.smoke, before)
        self._stack.require_none_ended(self._stack.containers(), before)

    def _build(self, services: Sequence[str], seconds: float) -> None:
        arguments = ("--progress", "plain", "build", *services)
        say(f"==> {self._stack.shown(*arguments)}")
        log = self._logs / "build.log"
        with _told_time("build", seconds):
            code = self._stack.watch(arguments, log, seconds, {}, progress := Progress("building"))
        progress.end()
        if code != 0:
            say(log.read_text(encoding="utf-8", errors="replace")[-3000:])
            raise compose.build_failed(f"docker compose build; its output is {log}", code)

    def _smoke(self, report: Report, seconds: float, before: compose.Containers) -> None:
        sounds = report.folder / "smoke"
        sounds.mkdir()
        # The suite's user has no name here, and group 0; root has no rights there that a folder would not give.
        sounds.chmod(0o775)
        user = () if os.geteuid() == 0 else ("--user", f"{os.geteuid()}:0")
        arguments = (
            *("run", "--rm", "--no-deps", "--no-TTY", *user, "--volume", f"{sounds}:/smoke"),
            *("smoke", "http://gateway:8000", "--out", "/smoke"),
            # Where the figures count, one model after the other.
            *(("--together",) if report.rehearsal else ()),
        )
        say(f"==> {self._stack.shown(*arguments)}")
        log = self._logs / "smoke.log"
        progress = Progress("trying it")
        with _told_time("smoke", seconds):
            code = self._stack.watch(arguments, log, seconds, before, progress)
        progress.end()
        table = log.read_text(encoding="utf-8", errors="replace")
        say(table.rstrip())
        report.take_suite(sounds / "smoke.json")
        if code != 0:
            failed = [line for line in table.splitlines() if line.startswith("FAIL")]
            raise FirstwordError(
                " ".join(failed[0].split()) if failed else f"the suite ended with {code}: {compose.last_line(table)}",
                mend=f"every check and its sounds: {sounds}",
                code=Exit(code) if code in set(Exit) - {Exit.OK} else Exit.BAD_ANSWER,
            )

    def _keep_logs(self) -> None:
        """Write each container's log and what its health check said; that it fails must not keep the stack up."""
        try:
            for service, one in self._stack.containers().items():
                self._stack.keep_log(service, one)
                # Only its state: its environment holds keys.
                told = {"state": one["State"], "restarts": one["RestartCount"]}
                file = self._logs / f"{service}.state.json"
                file.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        except Exception as error:  # whatever it is
            say(f"the containers' logs could not be kept: {error}")


@contextlib.contextmanager
def _told_time(step: str, seconds: float) -> Iterator[None]:
    """Name the step and its option in the message that its time is up."""
    try:
        yield
    except FirstwordError as error:
        if error.code != Exit.NOT_READY:
            raise
        raise FirstwordError(
            f"{step} has not ended within {seconds:.0f} s", mend=f"give it longer: --{step}-timeout", code=error.code
        ) from error


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no further Ctrl-C or SIGTERM keep what follows from being done."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def wait(number: int, frame: FrameType | None) -> None:
        del number, frame
        print("the stack is being taken down: a moment", file=sys.stderr, flush=True)

    before = {number: signal.signal(number, wait) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
