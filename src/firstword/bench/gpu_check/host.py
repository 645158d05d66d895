"""Name what was measured, and on what: machine, GPU, driver, versions, commit."""

import subprocess
from pathlib import Path
from typing import Any

from firstword.bench import machine
from firstword.native.labels import series_sha256


def describe(root: Path, *, gpu: bool, named: str | None = None) -> dict[str, Any]:
    """Return the machine, PyTorch, the checkout's commit (or `named`), its patches, and the first GPU if asked for."""
    import torch

    found: dict[str, Any] = {
        "machine": machine.describe(),
        "torch": torch.__version__,
        "commit": named or commit(root),
        "series_sha256": series_sha256(root / "patches"),
        "gpu": None,
    }
    if gpu:
        properties = torch.cuda.get_device_properties(0)
        found["gpu"] = {
            "name": properties.name,
            "memory_gb": round(properties.total_memory / 1e9, 1),
            "capability": f"{properties.major}.{properties.minor}",
            "cuda": torch.version.cuda,
            "driver": driver(),
        }
    return found


def driver() -> str:
    """Return the version of NVIDIA's driver."""
    told = _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return told.splitlines()[0].strip() if told else "unknown (nvidia-smi does not tell)"


def commit(root: Path) -> str:
    """Return the checkout's commit, and whether tracked files differ from it."""
    head = _output("git", "-C", str(root), "rev-parse", "HEAD")
    if not head:
        return "unknown (git does not tell)"
    changed = _output("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")
    return f"{head.strip()}{' and changes' if changed else ''}"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
