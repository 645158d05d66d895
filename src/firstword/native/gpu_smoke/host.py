"""What a report says of the host, the images and the models. Standard library only."""

import os
import platform
import subprocess
from collections.abc import Iterable
from typing import Any

from firstword.native import docker, labels


def told() -> dict[str, Any]:
    """Return what the host is: GPUs and driver where there are some, kernel, cores, Docker; and the commit."""
    return {
        "gpus": _gpus(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "docker": docker.run("version", "--format", "{{.Server.Version}}").stdout.strip(),
        "compose": docker.run("compose", "version", "--short").stdout.strip(),
        "revision": labels.build_arguments().get("REVISION"),
        "series_sha256": labels.series_sha256(),
    }


def images(names: Iterable[str]) -> dict[str, str]:
    """Return each image's id."""
    return {
        name: docker.run("image", "inspect", "--format", "{{.Id}}", name).stdout.strip() for name in sorted({*names})
    }


def models(config: dict[str, Any]) -> list[str]:
    """Return the models that a resolved compose configuration serves."""
    services = config["services"].values()
    return [service["command"][0] for service in services if service.get("build", {}).get("target") in ("cuda", "cpu")]


def _gpus() -> list[dict[str, str]]:
    fields = ("index", "name", "driver_version", "memory.total", "memory.used")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = [line.split(", ") for line in done.stdout.splitlines()] if done.returncode == 0 else []
    return [dict(zip(fields, line, strict=True)) for line in lines if len(line) == len(fields)]
