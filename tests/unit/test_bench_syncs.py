"""The table and page of counts, and what makes counts unfit."""

import pytest

from firstword.bench.syncs import command, document
from firstword.bench.syncs.counting import KINDS
from firstword.errors import FirstwordError

EVENT = {"kind": "blocking read", "what": "number", "where": "a/b.py:7", "line": "x.item()", "times": 3}


def side(reads=3, equal=True, how="held tensors on the CPU"):
    part = {"totals": dict(zip(KINDS, (reads, 0, 1), strict=True)), "events": [EVENT] if reads else []}
    workload = {"equal to plain CPU": equal, "phases": {"one call": part}, "operators": 5, "not passed": {}}
    return {"how": how, "torch": "2", "workloads": {"w": workload}}


def report(stock, patched):
    machine = {"cores": 2, "processor": "P", "python": "3.12.1"}
    return {"date": "2026-01-01", "machine": machine, "versions": {"torch": "2"}, "stock": stock, "patched": patched}


def test_a_row_shows_both_sides_where_they_differ():
    assert document.table(report(side(8), side(1)))[-1] == "| w | one call | 8 → **1** | 0 | 1 |"
    assert document.table(report(side(2), side(2)))[-1] == "| w | one call | 2 | 0 | 1 |"


def test_the_page_names_each_line_and_says_that_no_gpu_was_there():
    page = document.page(report(side(3), side(3)))
    assert "- 3: blocking read, number, `a/b.py:7`" in page
    assert "It has not been run on a GPU." in page
    on_gpu = document.page(report(side(3, None, "CUDA on X"), side(3, None, "CUDA on X")))
    assert "not been run on a GPU" not in on_gpu
    assert "set_sync_debug_mode" in on_gpu


def test_a_part_without_waits_says_so():
    assert "- none" in document.page(report(side(0), side(0)))


def test_a_workload_that_failed_or_came_out_otherwise_is_a_fault():
    failed = {"how": "", "workloads": {"w": {"error": "NotImplementedError: the counter cannot pass x"}}}
    assert document.faults(side()) == []
    assert document.faults(side(equal=None)) == []  # on a GPU there is nothing to compare with
    assert document.faults(side(equal=False)) == ["w: its results are not those of a plain CPU run"]
    assert document.faults(failed) == ["w: NotImplementedError: the counter cannot pass x"]
    assert "not counted: NotImplementedError" in document.table(report(side(), failed))[-1]


def test_an_unknown_workload_is_refused_with_those_there_are():
    with pytest.raises(FirstwordError, match="no such workload: speech") as refused:
        command.measure(to=None, doc=None, names=["speech"])
    assert "streamed speech" in str(refused.value)
