"""Ask the machine. Everything a check wants to know of it goes through `Probes`, which tests replace."""

import ctypes
import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstword.engine.config import Device

MIB = 1024**2


class Probes:
    """The machine as it is."""

    def python(self) -> tuple[int, int]:
        """Return the interpreter's version."""
        return sys.version_info[:2]

    def devices(self, kind: str) -> "list[Device]":
        """Return the devices of a kind that this process may use: GPUs, or main memory as the one CPU device."""
        from firstword.engine.config import Device

        if kind == "cpu":
            total, available = self.memory()
            return [Device("cpu", 0, "this machine", total, available)]
        return [
            Device("cuda", index, row["name"], int(row["memory.total"]) * MIB, int(row["memory.free"]) * MIB)
            for index, row in enumerate(self._gpus or ())
        ]

    def drivers(self) -> list[tuple[int, ...]] | None:
        """Return the driver's version for each GPU, as ``(580, 65)``; None when no driver answers."""
        if self._gpus is None:
            return None
        return [tuple(int(part) for part in row["driver_version"].split(".") if part.isdigit()) for row in self._gpus]

    @cached_property
    def _gpus(self) -> list[dict[str, str]] | None:
        fields = ("index", "uuid", "name", "memory.total", "memory.free", "driver_version")
        command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return None
        rows = [[part.strip() for part in line.split(",")] for line in answer.splitlines()]
        found = [dict(zip(fields, row, strict=True)) for row in rows if len(row) == len(fields)]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is None:
            return found
        by_name = {row[key]: row for row in found for key in ("index", "uuid")}
        return [by_name[name.strip()] for name in visible.split(",") if name.strip() in by_name]

    def memory(self) -> tuple[int, int]:
        """Return (total, available) bytes of main memory, within the container's limit."""
        total = available = sys.maxsize
        for line in _lines(Path("/proc/meminfo")):
            name, _, rest = line.partition(":")
            if name == "MemTotal":
                total = int(rest.split()[0]) * 1024
            elif name == "MemAvailable":
                available = int(rest.split()[0]) * 1024
        folder = Path("/sys/fs/cgroup")
        for limit, used, statistics in (
            ("memory.max", "memory.current", "memory.stat"),
            ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
        ):
            top, taken = _number(folder / limit), _number(folder / used)
            if top is not None and taken is not None and top < total:
                # Cached files count as used there, but give way.
                cached = sum(_statistic(folder / statistics, name) for name in ("inactive_file", "active_file"))
                total, available = top, min(available, top - max(taken - cached, 0))
        return total, available

    def free_space(self, folder: Path) -> int | None:
        """Return the free bytes of the file system that ``folder`` is or will be on; None for no /dev/shm."""
        if folder == Path("/dev/shm") and not folder.is_dir():  # noqa: S108
            return None
        for path in (folder, *folder.parents):
            try:
                return shutil.disk_usage(path).free
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:  # it may not be looked at: another check says so
                return None
        return None

    def write_error(self, folder: Path) -> str | None:
        """Return which folder refuses what would be written at ``folder``, and why; None when it can be."""
        for path in (folder, *folder.absolute().parents):
            try:
                path.lstat()
            except OSError:  # what lies above it tells why
                continue
            try:
                with tempfile.TemporaryFile(dir=path):
                    return None
            except OSError as error:
                # A full disk is told by another check.
                return None if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"{path} ({error.strerror})"
        return None

    def bind_error(self, host: str, port: int) -> str | None:
        """Return why a server could not listen there, None when it could."""
        if not 0 < port < 65536:  # the resolver would take it modulo 65536
            return "ports are 1 to 65535"
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind, protocol) as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(address)
                server.listen(1)
        except OSError as error:
            return getattr(error, "strerror", None) or str(error)
        return None

    def command(self, *names: str) -> str | None:
        """Return the path of the first of these commands that exists."""
        return next((path for name in names if (path := shutil.which(name))), None)

    def library(self, name: str) -> bool:
        """Return whether the system's linker finds a shared library."""
        try:
            ctypes.CDLL(name)
        except OSError:
            return False
        return True


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdigit() else None


def _statistic(path: Path, name: str) -> int:
    return next((int(line.split()[1]) for line in _lines(path) if line.startswith(name + " ")), 0)
