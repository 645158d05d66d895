"""One compose project: build it, start it, and notice at once when an engine cannot start. Standard library only.

``docker compose up --wait`` fails for a container that ends, but one with a restart policy is started
again and again, and then it waits for ever. So the containers' restarts are counted meanwhile.
"""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.native import docker, labels
from firstword.native.console import Progress, say

# The engine image, the cache that it is built from, and the layers in between.
BUILD_BYTES = 24_000_000_000
_LINES = 12
_OWN = re.compile(r"firstword \w+: ")
_SECONDS = 120
# From one look at the containers to the next; a look takes half a second of a core.
_LOOK_SECONDS = 3.0

# What Docker knows of each container, by its service.
Containers = dict[str, dict[str, Any]]


class Compose:
    """One compose project of this checkout.

    Args:
        files: Compose files.
        settings: Variables that count more than the environment and .env.
        logs: Folder for the output of what goes wrong.
        option: How the user gives it longer to get ready.
    """

    def __init__(
        self, files: Sequence[str], settings: Mapping[str, str], logs: Path, option: str = "--timeout"
    ) -> None:
        self._words = docker.compose(files)
        self._settings = dict(settings)
        self._environment = labels.build_arguments() | dict(os.environ) | self._settings
        self._logs, self._option = logs, option

    def shown(self, *arguments: str) -> str:
        """Return a command as a user types it."""
        return " ".join([*(f"{k}={v}" for k, v in self._settings.items()), "docker", *self._words, *arguments])

    def run(self, *arguments: str, seconds: float = _SECONDS) -> "subprocess.CompletedProcess[str]":
        """Run a command of Compose and return it with its output.

        Raises:
            FirstwordError: It takes longer than it may.
        """
        try:
            return subprocess.run(
                ["docker", *self._words, *arguments],
                cwd=paths.root(),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            raise FirstwordError(
                f"`{self.shown(*arguments)}` has not ended within {seconds:.0f} s",
                mend="see whether the Docker engine answers: docker info",
                code=Exit.ENVIRONMENT,
            ) from error

    def config(self) -> dict[str, Any]:
        """Return the resolved configuration.

        Raises:
            FirstwordError: There is a mistake in the settings.
        """
        done = self.run("config", "--format", "json")
        if done.returncode != 0:
            raise FirstwordError(
                f"the compose files cannot be read: {last_line(done.stderr)}",
                mend="correct .env or the FIRSTWORD_ variables (.env.example tells each)",
                code=Exit.CONFIG,
            )
        config = json.loads(done.stdout)
        assert isinstance(config, dict)
        return config

    def containers(self) -> Containers:
        """Return what Docker knows of each service's container; those of `compose run` are not among them."""
        ids = self.run("ps", "--all", "--quiet").stdout.split()
        listed = json.loads(docker.run("inspect", *ids).stdout or "[]") if ids else []
        told = [(one["Config"]["Labels"], one) for one in listed]
        oneoff = "com.docker.compose.oneoff"
        return {own["com.docker.compose.service"]: one for own, one in told if own.get(oneoff) != "True"}

    def build(self) -> None:
        """Build the images; the user sees it.

        Raises:
            FirstwordError: It failed.
        """
        say(f"==> {self.shown('build')}")
        command = ["docker", *self._words, "build"]
        done = subprocess.run(command, cwd=paths.root(), env=self._environment, stdout=2, check=False)
        if done.returncode != 0:
            raise build_failed(" ".join(command), done.returncode)

    def up(self, timeout: float, before: Containers, *options: str) -> None:
        """Start all and wait until all are healthy, or one has ended.

        Args:
            timeout: Seconds.
            before: What ran already.
            options: Further ones of `docker compose up`.

        Raises:
            FirstwordError: One has ended, or time is up.
        """
        arguments = ("up", "--wait", *options)
        say(f"==> {self.shown(*arguments)}")
        progress = Progress("starting", expected=90)
        log = self._logs / "compose-up.log"
        code = self.watch(arguments, log, timeout, before, progress)
        if code != 0:
            progress.end("failed")
            self.require_none_ended(self.containers(), before)
            raise FirstwordError(last_line(log.read_text()), mend=f"see {log}", code=Exit.NOT_READY)
        progress.end("ready")

    def watch(self, arguments: Sequence[str], log: Path, timeout: float, before: Containers, progress: Progress) -> int:
        """Run a command of Compose for as long as no container ends, and return its exit code.

        Args:
            arguments: The command.
            log: Where its output goes.
            timeout: Seconds that it may take.
            before: What ran already: its restarts so far do not count.
            progress: Shown meanwhile.

        Raises:
            FirstwordError: A container has ended, or time is up.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as output:
            process = subprocess.Popen(
                ["docker", *self._words, *arguments],
                cwd=paths.root(),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for this program; it then ends the other.
                start_new_session=True,
            )
            try:
                while (code := _ended(process, _LOOK_SECONDS)) is None:
                    now = self.containers()
                    self.require_none_ended(now, before)
                    self._require_time(progress.seconds, timeout, now)
                    progress.update(", ".join(f"{name}: {word(one)}" for name, one in now.items()))
            except BaseException:
                progress.end("failed")
                _interrupt(process)
                raise
        return code

    def require_none_ended(self, now: Containers, before: Containers) -> None:
        """Raise when a container has ended since ``before``, with what it said last.

        Raises:
            FirstwordError: One has, whether or not it was started again.
        """
        for service, one in now.items():
            known = before.get(service, {})
            earlier = known.get("RestartCount", 0) if known.get("Id") == one["Id"] else 0
            if one["RestartCount"] <= earlier and one["State"]["Status"] not in ("exited", "dead", "restarting"):
                continue
            kept = self.keep_log(service, one)
            say("\n" + last_words(kept.read_text(encoding="utf-8", errors="replace").splitlines()))
            code = _exit_code(one)
            was_ready = word(known) == "healthy" if known.get("Id") == one["Id"] else False
            raise FirstwordError(
                f"the container {service} ended {'after' if was_ready else 'before'} it was ready"
                + (f" (exit code {code})" if code else ""),
                mend=f"its log is {kept}",
                code=Exit(code) if code in set(Exit) - {Exit.OK} else Exit.STAGE_DIED,
            )

    def _require_time(self, seconds: float, timeout: float, now: Containers) -> None:
        if seconds <= timeout:
            return
        waited_for = [f"{service} is {word(one)}{_health_says(one)}" for service, one in now.items() if _holds_up(one)]
        raise FirstwordError(
            "; ".join([f"not ready after {timeout:.0f} s", *waited_for]),
            mend=f"a slow machine or a first download needs a longer {self._option}",
            code=Exit.NOT_READY,
        )

    def keep_log(self, service: str, container: dict[str, Any]) -> Path:
        """Write a container's log, its last lines alone where it is long, and return the file."""
        kept = self._logs / f"{service}.log"
        kept.parent.mkdir(parents=True, exist_ok=True)
        # Not compose's `logs`: it puts control characters between the lines.
        command = ["docker", "logs", "--tail", "20000", container["Id"]]
        with kept.open("wb") as file:
            subprocess.run(command, stdout=file, stderr=file, check=False, timeout=_SECONDS, start_new_session=True)
        return kept


def require_room() -> None:
    """Raise when the images cannot be built for want of disk.

    Raises:
        FirstwordError: So it is.
    """
    folder = Path(docker.run("info", "--format", "{{.DockerRootDir}}").stdout.strip() or "/")
    # Of an engine on another machine nothing is known.
    if folder.is_dir() and (free := shutil.disk_usage(folder).free) < BUILD_BYTES:
        raise FirstwordError(
            f"{free / 1e9:.1f} GB free in {folder}, {BUILD_BYTES / 1e9:.0f} GB needed to build the images",
            mend="free disk space (docker system prune), or use scripts/up --native, which takes 9 GB",
            code=Exit.DISK_FULL,
        )


def missing(config: dict[str, Any]) -> bool:
    """Return whether an image has to be built first. One that is there is used: `docker compose build` renews it."""
    images = {service["image"] for service in config["services"].values()}
    return any(docker.run("image", "inspect", image).returncode != 0 for image in images)


def word(container: dict[str, Any]) -> str:
    """Return what a container is, in one word."""
    state = container["State"]
    health = (state.get("Health") or {}).get("Status")
    return str(health if state["Status"] == "running" and health else state["Status"])


def build_failed(command: str, code: int) -> FirstwordError:
    """Return the error of a build that failed."""
    return FirstwordError(
        f"`{command}` failed (exit code {code})",
        mend="its last lines tell why; behind a proxy that inspects TLS set CA_BUNDLE (.env.example)",
        code=Exit.ENVIRONMENT,
    )


def last_words(lines: list[str]) -> str:
    """Return the last message of firstword's own that says what mends it, else the last lines."""
    for number in range(len(lines) - 1, -1, -1):
        if _OWN.match(lines[number]):
            told = list(itertools.takewhile(lambda line: not _OWN.match(line), lines[number + 1 :]))
            mends = [at for at, line in enumerate(told) if line.startswith("  mend: ")]
            if mends:
                return "\n".join([lines[number], *told[: mends[-1] + 1]])
    return "\n".join(lines[-_LINES:])


def last_line(text: str) -> str:
    """Return the last line of an output."""
    return (text.strip().splitlines() or ["no message"])[-1]


def _ended(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    """Return the exit code of a process that ends within so many seconds, else None."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _interrupt(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _exit_code(container: dict[str, Any]) -> int:
    """Return what a container ended with last; its state no longer says so once it has been started again."""
    filters = ("--filter", f"container={container['Id']}", "--filter", "event=die")
    until = ("--since", container["Created"], "--until", str(int(time.time()) + 1))
    told = docker.run("events", *until, *filters, "--format", "{{.Actor.Attributes.exitCode}}").stdout.split()
    return int(told[-1]) if told else int(container["State"]["ExitCode"])


def _holds_up(container: dict[str, Any]) -> bool:
    return word(container) not in ("healthy", "running")


def _health_says(container: dict[str, Any]) -> str:
    log = (container["State"].get("Health") or {}).get("Log") or []
    said = " ".join(log[-1].get("Output", "").split()) if log else ""
    return f" ({said[:300]})" if said else ""
