"""`scripts/gpu-smoke`: the order of its steps, and that whatever fails it keeps the logs and takes the stack down.

The `docker` here does as it is told; the same script on a real engine: tests/containers.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from firstword import paths
from firstword.errors import Exit

SCRIPTED = Path(__file__).with_name("scripted_docker.py")


class Machine:
    """A machine with a scripted `docker`.

    Attributes:
        out: The report's folder.
    """

    def __init__(self, folder):
        self.folder, self.out = folder, folder / "report"
        (folder / "bin").mkdir()
        shutil.copy(SCRIPTED, folder / "bin/docker.py")
        program = folder / "bin/docker"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {folder}/bin/docker.py "$@"\n')
        program.chmod(0o755)
        self.tell()

    def tell(self, **told):
        (self.folder / "bin/told.json").write_text(json.dumps({"health": "starting", "restarts": 0} | told))

    def start(self, *options):
        settings = {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "FIRSTWORD_HOME": str(self.folder / "home"),
            "FIRSTWORD_PYTHON": sys.executable,
        }
        return subprocess.Popen(
            [str(paths.root() / "scripts/gpu-smoke"), "--out", str(self.out), *options],
            env=os.environ | settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options):
        """Return the exit code and what it printed."""
        process = self.start(*options)
        said = process.communicate(timeout=60)[1]
        return process.returncode, said

    def calls(self):
        file = self.folder / "bin/calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def verbs(self):
        """Return the calls that do something, in their order."""
        known = ("build", "up", "run", "down")
        return [next(word for word in call if word in known) for call in self.calls() if {*call} & {*known}]

    def report(self):
        return json.loads((self.out / "report.json").read_text())


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_good_stack_is_built_started_tried_and_taken_down(machine):
    code, said = machine.run("--rehearse")
    assert code == Exit.OK, said
    assert machine.verbs() == ["down", "build", "up", "run", "down"]
    told = machine.report()
    assert (told["ok"], told["rehearsal"], told["failure"]) == (True, True, None)
    assert told["checks"] == {"passed": 2}
    assert told["figures"] == {"a": {"first": {"first_audio_seconds": 0.5}}}
    assert {"build", "up", "smoke", "down"} <= set(told["seconds"])
    assert str(machine.out / "report.json") in said
    downs = [call for call in machine.calls() if "down" in call]
    # A rehearsal's checkpoints go, a GPU host's stay.
    assert all("--volumes" in call for call in downs)


def test_on_gpus_the_checkpoints_stay(machine):
    machine.tell(gpu=True, model="step-audio-2-mini")
    assert machine.run()[0] == Exit.OK
    calls = [call for call in machine.calls() if call[0] == "compose"]
    assert not any("--volumes" in call or "compose.cpu.yaml" in call or "--together" in call for call in calls)


@pytest.mark.parametrize(
    ("told", "options", "code", "step", "cause"),
    [
        ({"build": 17}, (), Exit.ENVIRONMENT, "build", "failed (exit code 17)"),
        ({"build": "hangs"}, ("--build-timeout", "1"), Exit.NOT_READY, "build", "build has not ended within 1 s"),
        ({"up": 1}, (), Exit.NOT_READY, "up", ""),
        ({"up": "hangs", "restarts": 1}, (), Exit.STAGE_DIED, "up", "the container step-audio-2 ended before it was"),
        (
            {"up": "hangs"},
            ("--ready-timeout", "2"),
            Exit.NOT_READY,
            "up",
            "not ready after 2 s; gateway is starting (not ready: no first answer yet)",
        ),
        ({"run": 61}, (), Exit.BAD_ANSWER, "smoke", "FAIL a first 0.1 s silence"),
        ({"run": "hangs"}, ("--smoke-timeout", "2"), Exit.NOT_READY, "smoke", "smoke has not ended within 2 s"),
        ({"down": 9}, (), Exit.ENVIRONMENT, "down what an earlier run left", "could not be taken down"),
    ],
)
def test_whatever_fails_it_is_taken_down_and_told(machine, told, options, code, step, cause):
    machine.tell(**told)
    ended, said = machine.run("--rehearse", *options)
    assert ended == code, said
    assert machine.verbs()[-1] == "down"
    report = machine.report()
    assert not report["ok"]
    assert (report["failure"]["step"], report["failure"]["code"]) == (step, code)
    assert cause in report["failure"]["cause"]
    assert "mend: " in said
    if "not ready after" in cause:
        assert "longer --ready-timeout" in said
    if step in ("up", "smoke"):
        assert "a stage died" in (machine.out / "logs/step-audio-2.log").read_text()
        assert "no first answer yet" in (machine.out / "logs/step-audio-2.state.json").read_text()
    # What the containers' environments hold is kept nowhere.
    kept = [file.read_text() for file in machine.out.rglob("*") if file.is_file()]
    assert not any("secret-key" in text for text in kept)


def test_an_engine_that_ends_while_it_is_tried_ends_the_run(machine):
    machine.tell(run="hangs", health="healthy")
    process = machine.start("--rehearse")
    _until(lambda: "run" in machine.verbs())
    machine.tell(run="hangs", health="healthy", restarts=1)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == Exit.STAGE_DIED
    assert "the container step-audio-2 ended after it was ready (exit code 42)" in said
    assert "firstword serve: a stage died" in said
    assert machine.verbs()[-1] == "down"


def test_images_that_are_there_can_be_used(machine):
    assert machine.run("--rehearse", "--no-build")[0] == Exit.OK
    assert machine.verbs() == ["down", "up", "run", "down"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_takes_it_down_and_a_second_one_does_not_stop_that(machine, number, code):
    machine.tell(up="hangs", down_seconds=1)
    process = machine.start("--rehearse")
    _until(lambda: "up" in machine.verbs())
    process.send_signal(number)
    _until(lambda: machine.verbs().count("down") == 2)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == code, said
    assert "the stack is being taken down" in said
    assert not (machine.folder / "bin/is-up").exists()
    assert machine.report()["failure"]["cause"] == "interrupted"


def test_keep_leaves_a_stack_that_passed_and_down_takes_it_down(machine):
    assert machine.run("--rehearse", "--keep")[0] == Exit.OK
    assert machine.verbs() == ["down", "build", "up", "run"]
    assert machine.run("--rehearse", "--down")[0] == Exit.OK
    assert machine.verbs()[4:] == ["down"]


def test_keep_does_not_leave_a_stack_that_failed(machine):
    machine.tell(run=61)
    assert machine.run("--rehearse", "--keep")[0] == Exit.BAD_ANSWER
    assert machine.verbs()[-1] == "down"


@pytest.mark.parametrize(
    ("told", "options", "code"),
    [
        ({}, (), Exit.ENVIRONMENT),  # no GPU
        ({"gpu": True}, (), Exit.CONFIG),  # made-up weights
        ({}, ("--rehearse", "--ready-timeout", "0"), Exit.USAGE),
        ({}, ("--rehearse", "--smoke-timeout", "nan"), Exit.USAGE),
    ],
)
def test_what_cannot_be_verified_is_not_begun(machine, told, options, code):
    machine.tell(**told)
    ended, said = machine.run(*options)
    assert ended == code
    assert "mend: " in said
    assert not {"build", "up"} & {*machine.verbs()}


def test_a_folder_that_holds_something_else_is_left_alone(machine):
    machine.out.mkdir()
    (machine.out / "thesis.txt").write_text("mine")
    assert machine.run("--rehearse")[0] == Exit.USAGE
    assert (machine.out / "thesis.txt").read_text() == "mine"
    assert machine.verbs() == []


def test_an_older_report_is_replaced(machine):
    machine.tell(run=61)
    machine.run("--rehearse")
    machine.tell()
    assert machine.run("--rehearse")[0] == Exit.OK
    assert machine.report()["ok"]


def _until(found):
    deadline = time.monotonic() + 30
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)
