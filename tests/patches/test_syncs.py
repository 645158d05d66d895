"""Where the host waits for the device: pinned for each path, and the counter cannot be got past."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from forks import Run

from firstword import paths

# Workload -> part -> blocking reads, with all patches. One more is a step back; one fewer: lower the number here,
# and make docs/benchmarks/syncs.md anew.
READS = {
    "recognition, 1 request": {"one call": 1},
    "recognition, 8 requests": {"one call": 1},
    "streamed speech": {"a voice, once": 1, "first chunk": 1, "next chunk": 1, "last chunk": 1},
    "streamed speech, 8 requests": {"a voice, once": 1, "first chunk": 1, "next chunk": 1, "last chunk": 1},
    "decode step, 1 request": {"one step": 2},
    "decode step, 8 requests": {"one step": 2},
    "decode step, 8 requests, no async scheduling": {"one step": 2},
    "code2wav step, 1 request": {"one step": 1},
    "code2wav step, 8 requests": {"one step": 1},
    "reference": {"a new recording": 2, "the same again": 1},
}
# As released, where a patch changed it.
STOCK = {
    "recognition, 8 requests": {"one call": 8},
    "streamed speech": {"a voice, once": 1, "first chunk": 3, "next chunk": 3, "last chunk": 3},
}
PLANTED = (
    "recognition, 8 requests",
    "streamed speech",
    "decode step, 8 requests",
    "code2wav step, 8 requests",
    "reference",
)
ONE_READ = """item, tolist, cpu, to('cpu'), bool, if, int, float, index of a list, range, slice end, slice of a slice,
nonzero, where, unique, masked selection, masked_select, rows repeated by a tensor, equal, in, copied into the host's,
in a list for a tensor, size of a new one, formatted, printed, max of numbers, nanmedian, synchronize,
event, mask filled from the device"""
ONE_WRITE = """tensor from a list, new_tensor of a list, to(device), cuda(), index by a list, row set from the host,
element set to a number"""
ONE_ASYNC = """to('cpu') without waiting, copied into the host's without waiting, to(device) without waiting,
cuda() without waiting"""
NONE = """computed, slice by numbers, gathered, row set to a number, mask filled with a number, new on the device,
with a number of the host, sampled, same device, shape"""


def _reads(counted: dict) -> dict[str, int]:
    return {part: told["totals"]["blocking read"] for part, told in counted["phases"].items()}


@pytest.mark.parametrize("workload", READS)
def test_blocking_reads_of_a_patched_path(run: Run, workload: str) -> None:
    counted = run("sync_checks.count", workload=workload)
    assert counted.get("error") is None
    assert _reads(counted) == READS[workload]
    assert counted["equal to plain CPU"]
    assert counted["not passed"] == {}


@pytest.mark.parametrize("workload", STOCK)
def test_blocking_reads_of_the_release(run: Run, workload: str) -> None:
    counted = run("sync_checks.count", upto="stock", workload=workload)
    assert _reads(counted) == STOCK[workload]
    assert counted["equal to plain CPU"]


@pytest.mark.parametrize("workload", PLANTED)
def test_a_planted_read_is_told_with_its_line(run: Run, workload: str) -> None:
    facts = run("sync_checks.planted", workload=workload)
    assert facts["called while counting"] > 0
    assert facts["told"] == {"tensor.sum().item()": facts["called while counting"]}


def test_each_way_to_ask_is_counted_as_what_it_is_on_cuda(run: Run) -> None:
    answers = dict(run("sync_checks.questions"))
    assert answers.pop("istft") == "read 1"  # hidden in PyTorch: are there zeros in the window's sum?
    expected = {"read 1": ONE_READ, "write 1": ONE_WRITE, "async 1": ONE_ASYNC, "nothing": NONE}
    for told, names in expected.items():
        assert {name for name, answer in answers.items() if answer == told} == set(" ".join(names.split()).split(", "))
    assert set(answers.values()) == set(expected)


def test_memory_is_out_of_reach_and_the_unknown_is_named(run: Run) -> None:
    facts = run("sync_checks.out_of_reach")
    assert facts == {
        **dict.fromkeys(("numpy", "numpy.asarray", "memory address", "storage", "saved"), "TypeError"),
        "shared as dlpack": "ValueError",
        "added to the host's": "RuntimeError",
        "joined with the host's": "RuntimeError",
        "unknown operator": "NotImplementedError",
        "kernel that reads": "NotImplementedError",
        "counted in a thread": "1",
        "not passed": "firstword_test.peek.default, aten.normal.Tensor_Tensor",
    }


def test_python_may_rely_on_what_it_relies_on(run: Run) -> None:
    facts = run("sync_checks.same_object")
    assert [name for name, holds in facts.items() if holds is not True] == []


def test_what_cuda_reports_is_counted_each_time(run: Run) -> None:
    facts = run("sync_checks.cuda_reports")
    assert facts == {"counted": [2, 1], "others": ["something else"]}


def test_the_documented_counts_are_these(run: Run) -> None:
    written = json.loads((paths.root() / "docs/benchmarks/syncs.json").read_text(encoding="utf-8"))
    assert {name: _reads(counted) for name, counted in written["patched"]["workloads"].items()} == READS
    assert set(written["stock"]["workloads"]) == set(READS)
    for name, reads in STOCK.items():
        assert _reads(written["stock"]["workloads"][name]) == reads


def test_the_command_counts_stock_beside_patched(tmp_path: Path) -> None:
    to, doc = tmp_path / "syncs.json", tmp_path / "syncs.md"
    command = [sys.executable, "-m", "firstword", "bench", "syncs", "recognition, 8 requests"]
    done = subprocess.run([*command, "--json", str(to), "--doc", str(doc)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(to.read_text(encoding="utf-8"))
    assert {side: _reads(report[side]["workloads"]["recognition, 8 requests"]) for side in ("stock", "patched")} == {
        "stock": {"one call": 8},
        "patched": {"one call": 1},
    }
    assert report["machine"]["cores"] > 0
    assert report["versions"]["vllm-omni"] == "0.26.0"
    row = "| recognition, 8 requests | one call | 8 → **1** | 0 | 0 |"
    assert row in done.stdout
    assert row in doc.read_text(encoding="utf-8")


def test_the_three_forms_of_the_seed_tables_read_as_described(run: Run) -> None:
    assert run("sync_checks.seed_table_reads") == {
        "1": {"before": 1, "after": 1, "only the blocks needed": 1},
        "8": {"before": 8, "after": 1, "only the blocks needed": 1},
    }


def test_the_seed_tables_say_whether_there_was_a_gpu(run: Run, tmp_path: Path) -> None:
    facts = run("sync_checks.seed_table_page", folder=str(tmp_path))
    assert facts["code"] == 0
    report = json.loads(facts["json"])
    assert report["device"] == "no GPU: CPU"
    assert all(report["equal"].values())
    assert len(report["rows"]) == 4
    assert "It has not been run on a GPU" in facts["page"]
