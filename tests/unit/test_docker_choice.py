"""Whether `scripts/up` uses Docker, and in which form. The `docker` here only tells what such an engine would."""

import argparse
import json
import os

import pytest

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.native import compose, docker, labels, stack, up
from firstword.patching.series import load_series

ENGINE = {"ServerVersion": "26.1.5", "Runtimes": {"runc": {}}}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that puts a `docker` on the machine, which tells of this engine and this Compose."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("FIRSTWORD_HOME", str(tmp_path / "home"))

    def machine(engine=ENGINE, compose="2.26.1"):
        lines = ["#!/bin/sh", 'case "$1 $2" in']
        if engine is not None:
            (tmp_path / "info").write_text(json.dumps(engine))
            lines.append(f'"info --format") cat {tmp_path}/info; exit 0;;')
        if compose is not None:
            lines.append(f'"compose version") echo {compose}; exit 0;;')
        (tmp_path / "docker").write_text("\n".join([*lines, "esac", "exit 1", ""]))
        (tmp_path / "docker").chmod(0o755)

    return machine


def choose(*words):
    parser = argparse.ArgumentParser()
    up.add_arguments(parser)
    return up._compose_files(parser.parse_args(words))


@pytest.mark.parametrize(
    ("more", "files", "why"),
    [
        ({}, docker.CPU, "no NVIDIA runtime"),
        ({"Runtimes": {"runc": {}, "nvidia": {}}}, docker.GPU, "the NVIDIA runtime"),
        ({"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}, docker.GPU, "CDI"),
        ({"DiscoveredDevices": [{"Source": "cdi", "ID": "other.com/net=0"}]}, docker.CPU, "no NVIDIA runtime"),
    ],
)
def test_the_form_is_what_the_engine_has(machine, capsys, more, files, why):
    machine(ENGINE | more)
    assert choose() == choose("--docker") == files
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"engine": None}, "no Docker engine answers `docker info`"),
        # `docker info` ends with 0 and an empty version where only the client is there.
        ({"engine": {"ServerVersion": ""}}, "no Docker engine answers `docker info`"),
        ({"engine": {"ServerVersion": "20.10.24+dfsg1"}}, "the Docker engine is 20.10.24+dfsg1, 25.0 is needed"),
        ({"compose": None}, "docker has no compose"),
        ({"compose": "2.20.3"}, "Compose is 2.20.3, 2.24 is needed"),
    ],
)
def test_without_a_usable_engine_it_is_native_and_says_why(machine, capsys, settings, why):
    machine(**settings)
    assert choose() is None
    assert capsys.readouterr().err == f"without Docker: {why}\n"
    with pytest.raises(FirstwordError, match=why.replace("+", r"\+")) as caught:
        choose("--docker")
    assert caught.value.code == Exit.ENVIRONMENT


def test_what_is_asked_for_by_hand_decides(machine, capsys):
    machine()
    assert choose("--native") is None
    assert choose("--step-audio-2-port", "9000") is None
    assert "containers do not publish" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        choose("--native", "--docker")


def test_nothing_is_stopped_that_was_not_started_here(machine):
    machine()
    assert stack.started() is None
    assert stack.stop() == []


def test_the_last_words_of_a_container_that_was_started_again():
    cause = [
        "firstword serve: 1 thing would fail later",
        "[modules] no hyperpyyaml",
        "  later: x",
        "  mend:  install it",
    ]
    lines = ["noise", *cause, "firstword serve: configuration 12 (qwen3-tts/cpu):", "{", "}"]
    assert compose.last_words(lines) == "\n".join(cause)
    assert compose.last_words([*lines, "firstword serve: disk on fire", "  mend: water"]).endswith("water")
    assert compose.last_words(["firstword serve: checked", "a", "b"]) == "firstword serve: checked\na\nb"


def test_the_label_of_the_series_is_the_series_own_checksum():
    assert labels.series_sha256() == load_series(paths.root() / "patches").sha256
    assert all(labels.build_arguments().values())
