"""A download that is stopped: Ctrl-C, or killed. Nothing of it counts, and all of it is used."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from models_kit import NAME, tiny_hub, use, write_lock

from firstword.engine import models
from firstword.errors import Exit, FirstwordError
from loopback_hub import LoopbackHub, serving

_DOWNLOAD = """
from huggingface_hub import constants
constants.DOWNLOAD_CHUNK_SIZE = 16 * 1024
from firstword.cli import main
raise SystemExit(main(["models", "download", "tiny-step"]))
"""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    with serving(tiny_hub()) as hub:
        use(monkeypatch, tmp_path, hub)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hf"))
        write_lock(tmp_path / "root", hub, {"model.safetensors": True})
        yield hub


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_download_is_continued(hub: LoopbackHub, how: signal.Signals) -> None:
    hub.stall.set()
    hub.break_after["model.safetensors"] = [200_000]
    # On a busy machine the hub library must not give the standing transfer up before it is interrupted.
    environment = os.environ | {"HF_HUB_DOWNLOAD_TIMEOUT": "300"}
    process = subprocess.Popen(
        [sys.executable, "-c", _DOWNLOAD], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    folder = models.models_folder() / NAME
    try:
        deadline = time.monotonic() + 60
        while _part_size(folder) < 150_000 and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(how)
        _, said = process.communicate(timeout=20)  # it does not wait for the transfer, which stands still
    finally:
        process.kill()
    assert process.returncode == (130 if how == signal.SIGINT else -how), said
    assert "Traceback" not in said
    assert not (folder / "model.safetensors").exists()
    with pytest.raises(FirstwordError) as caught:
        models.resolve(NAME, offline=True)
    assert caught.value.code is Exit.CHECKPOINT_INCOMPLETE
    hub.stall.clear()
    hub.seen.clear()
    models.resolve(NAME)
    (transfer,) = hub.transfers("model.safetensors")
    assert int(transfer.headers["range"].removeprefix("bytes=").removesuffix("-")) >= 150_000


def _part_size(folder: Path) -> int:
    return max((part.stat().st_size for part in folder.glob(".partial/model.safetensors.*")), default=0)
