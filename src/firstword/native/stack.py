"""Bring the compose stack up and notice at once when an engine cannot start. Standard library only.

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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.native import docker, first_requests, labels
from firstword.native.console import Progress, say

# The engine image, the cache that it is built from, and the layers in between.
BUILD_BYTES = 24_000_000_000
_LINES = 12
_OWN = re.compile(r"firstword \w+: ")


def started() -> tuple[str, ...] | None:
    """Return the compose files of the stack that was started from here, or None."""
    try:
        return tuple(json.loads(_record().read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError):
        return None


def up(files: Sequence[str], port: int | None, timeout: float) -> str:
    """Build what is missing, start, wait until all is ready, and return what to paste.

    Args:
        files: Compose files.
        port: To publish the one address on; None for the setting's.
        timeout: Seconds until all has to be ready, builds not counted.

    Raises:
        FirstwordError: Why it is not; what was started for it is stopped again.
    """
    settings = {"FIRSTWORD_PORT": str(port)} if port is not None else {}
    stack = _Stack(files, settings)
    config = stack.config()
    missing = _missing(config)
    if missing:
        _require_room()
    before = stack.containers()
    _record().parent.mkdir(parents=True, exist_ok=True)
    _record().write_text(json.dumps({"files": list(files)}) + "\n", encoding="utf-8")
    try:
        if missing:
            stack.build()
        stack.wait(timeout, before)
    except BaseException:
        if not before:  # what ran before goes on
            stack.run("down", "--remove-orphans")
            _record().unlink(missing_ok=True)
        raise
    return _requests(config)


def stop() -> list[str]:
    """Stop the stack that was started from here and return its services; volumes are kept."""
    files = started()
    if files is None:
        return []
    stack = _Stack(files, {})
    services = sorted(stack.containers())
    done = stack.run("down", "--remove-orphans")
    if done.returncode != 0:
        raise FirstwordError(
            f"the containers could not be stopped: {_last_line(done.stderr)}",
            mend=f"start Docker, then run it again, or: {stack.shown('down')}",
            code=Exit.ENVIRONMENT,
        )
    _record().unlink(missing_ok=True)
    return services


def tell(files: Sequence[str]) -> int:
    """Print what each container is, and return 0 when all are healthy."""
    told = _Stack(files, {}).containers()
    for service, state in sorted(told.items()):
        print(f"{service}  {_word(state)}")
    return int(Exit.OK if told and all(_word(s) == "healthy" for s in told.values()) else Exit.NOT_READY)


class _Stack:
    def __init__(self, files: Sequence[str], settings: dict[str, str]) -> None:
        self._words = docker.compose(files)
        self._settings = settings
        self._environment = labels.build_arguments() | dict(os.environ) | settings

    def shown(self, *arguments: str) -> str:
        """Return a command as a user types it."""
        return " ".join([*(f"{k}={v}" for k, v in self._settings.items()), "docker", *self._words, *arguments])

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["docker", *self._words, *arguments],
            cwd=paths.root(),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def config(self) -> dict[str, Any]:
        """Return the resolved configuration.

        Raises:
            FirstwordError: There is a mistake in the settings.
        """
        done = self.run("config", "--format", "json")
        if done.returncode != 0:
            raise FirstwordError(
                f"the compose files cannot be read: {_last_line(done.stderr)}",
                mend="correct .env or the FIRSTWORD_ variables (.env.example tells each)",
                code=Exit.CONFIG,
            )
        config = json.loads(done.stdout)
        assert isinstance(config, dict)
        return config

    def containers(self) -> dict[str, dict[str, Any]]:
        """Return what Docker knows of each container, by its service."""
        ids = self.run("ps", "--all", "--quiet").stdout.split()
        listed = json.loads(docker.run("inspect", *ids).stdout or "[]") if ids else []
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in listed}

    def build(self) -> None:
        """Build the images; the user sees it.

        Raises:
            FirstwordError: It failed.
        """
        say(f"==> {self.shown('build')}")
        self._shown_run("build")

    def _shown_run(self, *arguments: str) -> None:
        command = ["docker", *self._words, *arguments]
        done = subprocess.run(command, cwd=paths.root(), env=self._environment, stdout=2, check=False)
        if done.returncode != 0:
            raise FirstwordError(
                f"`{' '.join(command)}` failed (exit code {done.returncode})",
                mend="its last lines tell why; behind a proxy that inspects TLS set CA_BUNDLE (.env.example)",
                code=Exit.ENVIRONMENT,
            )

    def wait(self, timeout: float, before: dict[str, dict[str, Any]]) -> None:
        """Start all and wait until all are healthy, or one has ended.

        Raises:
            FirstwordError: One has ended, or time is up.
        """
        arguments = ("up", "--wait")
        say(f"==> {self.shown(*arguments)}")
        log = paths.home() / "logs/compose-up.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        progress = Progress("starting", expected=90)
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
                while (code := process.poll()) is None:
                    now = self.containers()
                    self._require_none_ended(now, before)
                    _require_time(progress.seconds, timeout)
                    progress.update(", ".join(f"{name}: {_word(one)}" for name, one in now.items()))
                    time.sleep(1)
            except BaseException:
                progress.end("failed")
                process.send_signal(signal.SIGINT)
                process.wait()
                raise
        if code != 0:
            progress.end("failed")
            self._require_none_ended(self.containers(), before)
            raise FirstwordError(_last_line(log.read_text()), mend=f"see {log}", code=Exit.NOT_READY)
        progress.end("ready")

    def _require_none_ended(self, now: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
        for service, one in now.items():
            known = before.get(service, {})
            earlier = known.get("RestartCount", 0) if known.get("Id") == one["Id"] else 0
            state = one["State"]
            if one["RestartCount"] <= earlier and state["Status"] not in ("exited", "dead", "restarting"):
                continue
            kept = paths.home() / f"logs/{service}.log"
            # Not compose's `logs`: it puts control characters between the lines.
            with kept.open("wb") as file:
                subprocess.run(["docker", "logs", "--tail", "2000", one["Id"]], stdout=file, stderr=file, check=False)
            say("\n" + _last_words(kept.read_text(encoding="utf-8", errors="replace").splitlines()))
            code = _exit_code(one)
            raise FirstwordError(
                f"the container {service} ended before it was ready" + (f" (exit code {code})" if code else ""),
                mend=f"its log is {kept}",
                code=Exit(code) if code in set(Exit) - {Exit.OK} else Exit.STAGE_DIED,
            )


def _exit_code(container: dict[str, Any]) -> int:
    """Return what a container ended with last; its state no longer says so once it has been started again."""
    filters = ("--filter", f"container={container['Id']}", "--filter", "event=die")
    until = ("--since", container["Created"], "--until", str(int(time.time()) + 1))
    told = docker.run("events", *until, *filters, "--format", "{{.Actor.Attributes.exitCode}}").stdout.split()
    return int(told[-1]) if told else int(container["State"]["ExitCode"])


def _require_time(seconds: float, timeout: float) -> None:
    if seconds > timeout:
        raise FirstwordError(
            f"not ready after {timeout:.0f} s",
            mend="a slow machine or a first download needs a longer --timeout",
            code=Exit.NOT_READY,
        )


def _word(container: dict[str, Any]) -> str:
    state = container["State"]
    health = (state.get("Health") or {}).get("Status")
    return str(health if state["Status"] == "running" and health else state["Status"])


def _record() -> Path:
    return paths.home() / "run/compose.json"


def _last_words(lines: list[str]) -> str:
    """Return the last message of firstword's own that says what mends it, else the last lines."""
    for number in range(len(lines) - 1, -1, -1):
        if _OWN.match(lines[number]):
            told = list(itertools.takewhile(lambda line: not _OWN.match(line), lines[number + 1 :]))
            mends = [at for at, line in enumerate(told) if line.startswith("  mend: ")]
            if mends:
                return "\n".join([lines[number], *told[: mends[-1] + 1]])
    return "\n".join(lines[-_LINES:])


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def _missing(config: dict[str, Any]) -> bool:
    """Return whether an image has to be built first. One that is there is used: `docker compose build` renews it."""
    images = {service["image"] for service in config["services"].values()}
    return any(docker.run("image", "inspect", image).returncode != 0 for image in images)


def _require_room() -> None:
    folder = Path(docker.run("info", "--format", "{{.DockerRootDir}}").stdout.strip() or "/")
    # Of an engine on another machine nothing is known.
    if folder.is_dir() and (free := shutil.disk_usage(folder).free) < BUILD_BYTES:
        raise FirstwordError(
            f"{free / 1e9:.1f} GB free in {folder}, {BUILD_BYTES / 1e9:.0f} GB needed to build the images",
            mend="free disk space (docker system prune), or use scripts/up --native, which takes 9 GB",
            code=Exit.DISK_FULL,
        )


def _requests(config: dict[str, Any]) -> str:
    services = config["services"]
    (port,) = services["gateway"]["ports"]
    url = f"http://{port['host_ip']}:{port['published']}"
    speech = services["qwen3-tts"]["command"][0]
    key = bool(services["gateway"]["environment"].get("FIRSTWORD_API_KEYS"))
    about = f" {first_requests.SYNTHETIC}" if speech.endswith("-synthetic") else ""
    return f"""
Both engines are ready, at one address.{about} Paste these:

{first_requests.text(url, key=key)}
Logs: docker compose --project-name {config["name"]} logs
Stop: scripts/up --stop
"""
