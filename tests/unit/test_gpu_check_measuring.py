"""Comparing two sides: a wrong function is unequal, a planted read is counted, and CUDA is asked in the right order."""

import itertools
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from firstword import paths
from firstword.bench.gpu_check import measuring
from firstword.bench.gpu_check.case import Case, noise
from firstword.bench.gpu_check.sources import Sources

CPU = torch.device("cpu")
RIGHT = "import torch\n\n\ndef f(x):\n    return x * 2\n"


def case():
    def prepare(cutter, device, sizes):
        function = cutter.cut("a.py", "f")
        x = noise(sizes["n"], seed=1, device=device)
        return lambda: [function(x)]

    return Case("f", "f", (), {"n": 8}, {"n": 4}, prepare)


def files(patched):
    return Sources({("stock", "a.py"): RIGHT, ("patched", "a.py"): patched}, {})


def measured(patched):
    return measuring.measure(case(), files(patched), CPU, {"n": 4}, runs=3, seconds=0.0)


def test_equal_functions_are_equal_and_timed():
    found = measured(RIGHT.replace("x * 2", "x + x"))
    assert (found["equal"], found["difference"], found["release_repeats_itself"]) == (True, 0.0, True)
    assert found["calls"] == 3
    assert set(found["microseconds"]["done"]) == {"stock", "patched"}
    assert found["cut_from"] == ["a.py"]


@pytest.mark.parametrize(
    ("wrong", "difference"),
    [
        ("x * 2 + 2**-10", 2**-10),
        ("(x * 2).double()", 0.0),
        ("x[:3] * 2", None),
        ("(x * 2, 1)", None),
    ],
)
def test_a_wrong_function_is_unequal(wrong, difference):
    found = measured(RIGHT.replace("x * 2", wrong))
    assert not found["equal"]
    if difference is None:
        assert found["difference"] is None
    else:
        assert found["difference"] == pytest.approx(difference, rel=1e-3)


def test_a_release_that_differs_from_itself_is_told():
    drawn = RIGHT.replace("x * 2", "torch.rand(4)")
    found = measuring.measure(
        case(), Sources({("stock", "a.py"): drawn, ("patched", "a.py"): drawn}, {}), CPU, {"n": 4}, runs=1, seconds=1
    )
    assert not found["release_repeats_itself"]


def test_results_that_are_nothing_or_of_other_types_are_not_the_same():
    assert not measuring.same([], [])
    assert not measuring.same([1], [True])
    assert not measuring.same({"a": torch.ones(2)}, {"b": torch.ones(2)})
    assert measuring.same({"a": [torch.ones(2), None, 3]}, {"a": [torch.ones(2), None, 3]})


def test_a_planted_read_is_counted_at_its_line(tmp_path):
    """In a process of its own: the counter changes PyTorch's private device for good."""
    script = tmp_path / "count.py"
    script.write_text(
        "import json, sys, test_gpu_check_measuring as kit\n"
        "patched = kit.RIGHT.replace('return x * 2', 'return x * 2 * (1 if x.sum().item() else 1)')\n"
        "print(json.dumps(kit.measuring.count(kit.case(), kit.files(patched), {'n': 4})))\n"
    )
    path = os.pathsep.join([str(Path(__file__).parent), str(paths.root() / "src")])
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["stock"]["totals"]["blocking read"] == 0
    assert found["patched"]["totals"]["blocking read"] == 1
    (event,) = found["patched"]["events"]
    assert event["where"] == "patched/a.py:5"
    assert "x.sum().item()" in event["line"]
    assert found["stock"]["equal to plain CPU"]
    assert found["patched"]["equal to plain CPU"]


class Cuda:
    """`torch.cuda` as far as it is asked, with what it was asked in order."""

    def __init__(self, monkeypatch):
        self.asked = []
        for name in ("synchronize", "_sleep", "reset_peak_memory_stats", "set_sync_debug_mode"):
            monkeypatch.setattr(torch.cuda, name, lambda *args, name=name: self.asked.append((name, *args)))
        numbers = itertools.count()
        monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: self.event(next(numbers)))
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 1_000_000)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3_500_000)

    def event(self, number):
        return SimpleNamespace(record=lambda: self.asked.append(("record", number)), elapsed_time=lambda other: 2.5)


def test_on_a_gpu_a_call_is_timed_between_events_and_behind_queued_work(monkeypatch):
    cuda = Cuda(monkeypatch)
    times = measuring._on_gpu(lambda: cuda.asked.append(("call",)))
    assert cuda.asked == [
        ("synchronize",),
        ("record", 0),
        ("call",),
        ("record", 1),
        ("synchronize",),
        ("_sleep", measuring._QUEUED),
        ("call",),
        ("synchronize",),
    ]
    assert times["events"] == 0.0025
    assert 0 < times["host"] <= times["done"]
    assert times["queued"] > 0
    assert measuring._peak(lambda: None) == 2.5


def test_on_a_gpu_what_cuda_reports_of_one_call_is_counted(monkeypatch):
    cuda = Cuda(monkeypatch)

    def call():
        for _ in range(2):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)

    counts = measuring.reported(call)
    assert counts.total("call", "blocking read") == 2
    modes = [args[0] for name, *args in cuda.asked if name == "set_sync_debug_mode"]
    assert modes == ["warn", "default"]


def test_on_a_gpu_all_of_it_is_measured(monkeypatch):
    """As on the CPU, but that CUDA's own calls stand in: what a GPU adds to the result is there."""
    Cuda(monkeypatch)
    prepared = case().prepare
    placed = Case("f", "f", (), {}, {}, lambda cutter, _, sizes: prepared(cutter, CPU, sizes))
    gpu = SimpleNamespace(type="cuda")
    found = measuring.measure(placed, files(RIGHT), gpu, {"n": 4}, runs=2, seconds=1)
    assert found["equal"]
    assert set(found["microseconds"]) == {"host", "done", "events", "queued"}
    assert found["cuda_reports"]["stock"]["totals"]["blocking read"] == 0
    assert found["held_mb"] == {"stock": 0.0, "patched": 0.0}
    assert found["peak_mb"] == {"stock": 2.5, "patched": 2.5}
