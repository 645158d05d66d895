"""Parts in processes of their own: one that crashes, hangs or comes too late costs itself and nothing else."""

import time

import pytest

from firstword.bench.gpu_check import parts

WORKER = """\
import json, os, sys, time
settings = json.load(open(sys.argv[1]))
for name in settings["parts"]:
    with open(sys.argv[2], "a") as told:
        told.write(json.dumps({"begun": name}) + "\\n")
    if name == "crashes":
        print("Fatal: out of luck", flush=True)
        os._exit(3)
    if name == "hangs":
        time.sleep(60)
    with open(sys.argv[2], "a") as told:
        result = {"pid": os.getpid(), "given": settings["given"], "seen": os.environ.get("SEEN")}
        told.write(json.dumps({"part": name, "state": "measured", "result": result}) + "\\n")
"""


@pytest.fixture
def run(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)

    def run(*names, seconds=30.0, limit=30.0, worker=(str(script),)):
        job = parts.Job({"given": 7}, {"SEEN": "yes"}, limit, worker)
        said = []
        return parts.measure(names, job, parts.Deadline(seconds), said.append), said

    return run


def test_good_parts_are_measured_in_one_process(run):
    found, said = run("one", "two")
    assert [outcome.state for outcome in found.values()] == ["measured", "measured"]
    assert len({outcome.result["pid"] for outcome in found.values()}) == 1
    assert (found["one"].result["given"], found["one"].result["seen"]) == (7, "yes")
    assert said[0] == "measuring: one"


def test_a_crash_costs_its_own_part(run):
    found, _ = run("one", "crashes", "two")
    assert [(name, outcome.state) for name, outcome in found.items()] == [
        ("one", "measured"),
        ("crashes", "failed"),
        ("two", "measured"),
    ]
    assert found["crashes"].why == "its process ended with 3: Fatal: out of luck"


def test_a_part_over_its_limit_is_ended_and_the_next_one_measured(run):
    found, _ = run("hangs", "two", limit=1.0)
    assert (found["hangs"].state, found["two"].state) == ("failed", "measured")
    assert "longer than 1 s" in found["hangs"].why


def test_what_the_budget_does_not_reach_is_not_run(run):
    began = time.monotonic()
    found, _ = run("one", "hangs", "two", seconds=1.5)
    assert time.monotonic() - began < 20
    assert [outcome.state for outcome in found.values()] == ["measured", "not run", "not run"]
    assert found["hangs"].why == "the budget was used up amid it"
    assert found["two"].why == "the budget was used up before it"


def test_a_worker_that_cannot_start_fails_each_part_and_ends(run, tmp_path):
    found, _ = run("one", "two", worker=(str(tmp_path / "none.py"),))
    assert [outcome.state for outcome in found.values()] == ["failed", "failed"]
    assert "its process ended with 2" in found["one"].why


def test_a_budget_that_is_over_starts_nothing(run):
    found, said = run("one", seconds=0.0)
    assert (found["one"].state, said) == ("not run", [])
