"""A tiny published model, its lock, and a loopback hub that holds it."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from loopback_hub import LoopbackHub

REPOSITORY = "somebody/Tiny-Step"
REVISION = "a" * 40
NAME = "tiny-step"
CODE = b"class Config:\n    pass\n"


def safetensors(size: int, seed: int = 0) -> bytes:
    """Return a valid safetensors file with one tensor of ``size`` bytes."""
    header = json.dumps({"weight": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    body = bytes((i * 31 + seed) % 251 for i in range(997)) * (size // 997 + 1)
    return struct.pack("<Q", len(header)) + header + body[:size]


def tiny_files() -> dict[str, bytes]:
    config = {"model_type": "step_audio_2", "auto_map": {"AutoConfig": "configuration_tiny.Config"}}
    return {
        ".gitattributes": b"* text\n",
        "README.md": b"# Tiny\n",
        "config.json": json.dumps(config).encode(),
        "configuration_tiny.py": CODE,
        "tokenizer_config.json": b"{}",
        "model.safetensors": safetensors(300_000),
        "token2wav/flow.yaml": b"flow: 1\n",
        "token2wav/flow.pt": b"f" * 5000,
        "token2wav/hift.pt": b"h" * 4000,
        "token2wav/campplus.onnx": b"c" * 3000,
        "token2wav/speech_tokenizer_v2_25hz.onnx": b"s" * 2000,
    }


LFS = {"model.safetensors", "token2wav/flow.pt", "token2wav/hift.pt", "token2wav/campplus.onnx"}
SERVED = [path for path in tiny_files() if path not in (".gitattributes", "README.md")]


def tiny_hub() -> LoopbackHub:
    return LoopbackHub(REPOSITORY, REVISION, tiny_files(), set(LFS))


def write_lock(root: Path, hub: LoopbackHub, known: dict[str, bool], *, complete: bool = False, **change: Any) -> None:
    """Write the lock of the tiny model.

    Args:
        root: The folder that FIRSTWORD_ROOT names.
        hub: Where sizes and checksums come from.
        known: Paths in the lock, and whether with their sha256.
        complete: As in the lock.
        change: Other values for the lock's own fields.
    """
    fields = {
        "repository": hub.repository,
        "revision": hub.revision,
        "family": "step-audio-2",
        "kind": "mini",
        "licence": "Apache-2.0",
    } | change
    text = "".join(f'{key} = "{value}"\n' for key, value in fields.items())
    text += f"complete = {str(complete).lower()}\n[architecture]\nlayers = 1\n"
    for path, with_sha256 in known.items():
        text += f'[[files]]\npath = "{path}"\nsize = {len(hub.files[path])}\n'
        text += f'sha256 = "{hub.sha256(path)}"\n' if with_sha256 else ""
    folder = root / "configs" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}.lock").write_text(text)


def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hub: LoopbackHub) -> Path:
    """Point firstword and huggingface_hub at the loopback hub and at folders of this test; return the models folder."""
    import time

    from huggingface_hub import constants

    from firstword.engine.models import locks

    root, home = tmp_path / "root", tmp_path / "home"
    locks._read.cache_clear()
    monkeypatch.setenv("FIRSTWORD_ROOT", str(root))
    monkeypatch.setenv("FIRSTWORD_HOME", str(home))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "FIRSTWORD_TRUST_CODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 16 * 1024)  # so that small files come in several chunks
    pause = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: pause(min(seconds, 0.01)))  # waits between retries
    return home / "models"
