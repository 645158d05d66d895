"""What firstword shows for the same rows: the real command, in an environment that lacks the same thing."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from firstword.engine.stock_failures.overlay import build
from firstword.engine.stock_failures.rows import Row
from firstword.errors import Exit

_MACHINE = ("devices", "machine")


def preflight(row: Row, *, site_packages: Path, checkpoint: Path, scratch: Path, shape: str) -> tuple[int, list[Any]]:
    """Take a row's thing away, run ``firstword preflight``, and return its exit code and findings.

    What this machine lacks beside (memory, a free disk) is no part of the row, and left out.

    Args:
        row: What is taken away.
        site_packages: The installed environment.
        checkpoint: A Step-Audio-2 checkpoint.
        scratch: An empty folder.
        shape: The deploy config, ``speech-cpu`` or ``asr-cpu``.
    """
    overlay = build(scratch / "environment", site_packages, row.change, patched=True)
    model = linked_checkpoint(row, checkpoint, scratch / "checkpoint")
    drop = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"}
    answer = subprocess.run(
        [str(overlay.python), "-m", "firstword", "preflight", str(model), "--shape", shape, "--json"],
        env={key: value for key, value in os.environ.items() if key not in drop},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        findings = [found for found in json.loads(answer.stdout)["findings"] if found["check"] not in _MACHINE]
    except (ValueError, KeyError):
        raise RuntimeError(f"firstword preflight ended with {answer.returncode}: {answer.stderr[-2000:]}") from None
    codes = {int(finding["code"]) for finding in findings} or {int(Exit.OK)}
    code = codes.pop() if len(codes) == 1 else int(Exit.PREFLIGHT)
    return code, findings


def linked_checkpoint(row: Row, source: Path, target: Path) -> Path:
    """Link the checkpoint, without the file that the row takes away; the model's name stays."""
    target = target / source.name
    shutil.copytree(source, target, copy_function=_link)
    if row.no_file:
        (target / row.no_file).unlink()
    return target


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
