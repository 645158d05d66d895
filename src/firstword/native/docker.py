"""Whether Docker can be used here, and for which form of the stack. Standard library only."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firstword import paths

GPU = ("compose.yaml",)
CPU = ("compose.yaml", "compose.cpu.yaml")
# What compose.yaml says it needs.
_ENGINE, _COMPOSE = (25, 0), (2, 24)
_SECONDS = 20


@dataclass(frozen=True)
class Docker:
    """A Docker engine that answers, with Compose.

    Attributes:
        files: The compose files for what the engine has, in the checkout.
        why: In a few words, what decided that.
    """

    files: tuple[str, ...]
    why: str


def find() -> Docker | str:
    """Return the engine that answers here, or in one line why none can be used."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    done = run("info", "--format", "{{json .}}")
    told = _json(done.stdout)
    if done.returncode != 0 or not told.get("ServerVersion"):
        return "no Docker engine answers `docker info`"
    if not _at_least(told["ServerVersion"], _ENGINE):
        return f"the Docker engine is {told['ServerVersion']}, {'.'.join(map(str, _ENGINE))} is needed"
    compose = run("compose", "version", "--short")
    if compose.returncode != 0:
        return "docker has no compose"
    if not _at_least(compose.stdout.strip(), _COMPOSE):
        return f"Compose is {compose.stdout.strip()}, {'.'.join(map(str, _COMPOSE))} is needed"
    return Docker(*_form(told))


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run ``docker ARGUMENTS`` in the checkout; an engine that does not answer in time has failed."""
    command = ["docker", *arguments]
    try:
        return subprocess.run(
            command,
            cwd=paths.root(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def compose(files: Sequence[str]) -> list[str]:
    """Return the words that begin every command on these compose files."""
    return ["compose", *(word for file in files for word in ("-f", file))]


def _form(told: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    if "nvidia" in (told.get("Runtimes") or {}):
        return GPU, "`docker info` shows the NVIDIA runtime"
    devices = [str(device.get("ID", "")) for device in told.get("DiscoveredDevices") or []]
    if any(device.startswith("nvidia.com/gpu") for device in devices):
        return GPU, "`docker info` shows NVIDIA's devices (CDI)"
    return CPU, "`docker info` shows no NVIDIA runtime"


def _at_least(version: str, wanted: tuple[int, int]) -> bool:
    numbers = version.lstrip("v").split("+")[0].split(".")[:2]
    return all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= wanted


def _json(text: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
