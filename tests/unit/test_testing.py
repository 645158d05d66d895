"""What `scripts/test` runs, and what it says of what it does not run."""

import argparse
import os
from pathlib import Path

import pytest

from firstword import paths
from firstword.errors import Exit
from firstword.native import docker, environments, testing


@pytest.fixture
def test(monkeypatch, capsys):
    """Return a function that runs `scripts/test WORDS` without running a test; `failing` are parts that fail."""
    ran = []

    def test(*words, failing=(), user=0):
        ran.clear()
        parser = argparse.ArgumentParser()
        testing.add_arguments(parser)
        monkeypatch.setattr(environments, "dev", lambda: Path("dev"))
        monkeypatch.setattr(os, "geteuid", lambda: user)
        monkeypatch.setattr(docker, "find", lambda: "no docker command")
        monkeypatch.setattr(testing, "_lint", lambda _: ran.append("lint") or "lint" not in failing)
        monkeypatch.setattr(testing, "_pytest", lambda _, part, __: ran.append(part) or part not in failing)
        code = testing.run(parser.parse_args(words))
        return code, list(ran), capsys.readouterr().err

    return test


def test_all_of_it_has_the_containers_and_tells_what_is_not_run(test):
    code, ran, told = test()
    assert code == Exit.OK
    assert ran == ["lint", "unit", "patches", "engine", "gateway", "containers"]
    assert "containers-cuda: NOT RUN (the GPU image; scripts/test containers-cuda)" in told


def test_one_part_alone(test):
    code, ran, told = test("containers-cuda", "lint")
    assert (code, ran) == (Exit.OK, ["lint", "containers-cuda"])
    assert "NOT RUN" not in told
    assert (paths.root() / testing._TESTS["containers-cuda"]).is_file()


def test_a_part_that_fails_stops_no_other(test):
    code, ran, told = test(failing=("unit", "containers"))
    assert code == Exit.DEFECT
    assert len(ran) == 6
    assert "unit: FAILED" in told
    assert "containers: FAILED" in told


def test_an_unknown_part(test):
    code, ran, told = test("container")
    assert (code, ran) == (Exit.USAGE, [])
    assert "no part named container" in told


def test_where_no_docker_engine_can_be_used_the_containers_are_told_as_not_run(test):
    code, ran, told = test(user=1000)
    assert (code, ran) == (Exit.OK, ["lint", "unit", "patches", "engine", "gateway"])
    assert "containers: NOT RUN (no docker command; root can start an engine for them)" in told
    assert test("containers", user=1000)[1] == ["containers"]
