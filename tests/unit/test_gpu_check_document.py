"""The report's page: what a GPU adds, what was left out, and what is a fault."""

import pytest

from firstword.bench.gpu_check import catalogue, document
from firstword.bench.gpu_check.parts import Outcome

MACHINE = {"cores": 16, "processor": "P", "load": 0.5, "python": "3.12.3"}
GPU = {"name": "NVIDIA X", "memory_gb": 143.8, "capability": "9.0", "cuda": "13.0", "driver": "580.1"}
ABOUT = {"machine": MACHINE, "torch": "2.11.0", "commit": "c0ffee", "series_sha256": "5e", "gpu": GPU}
TOTALS = {"blocking read": 0, "blocking write": 0, "asynchronous copy": 0}
FORMS = ("before", "after", "only the blocks needed")


def side(reads):
    return {"totals": TOTALS | {"blocking read": reads}, "events": [], "equal to plain CPU": True}


def measured(**changes):
    times = {"host": (90.0, 30.0), "done": (95.0, 60.0), "events": (94.0, 58.0), "queued": (1100.0, 31.0)}
    result = {
        "equal": True,
        "difference": 0.0,
        "release_repeats_itself": True,
        "sizes": {"requests": 8},
        "microseconds": {name: {"stock": a, "patched": b} for name, (a, b) in times.items()},
        "cuda_reports": {"stock": side(9), "patched": side(2)},
        "held_mb": {"stock": 12.5, "patched": 4.0},
    }
    return Outcome("measured", "", result | changes)


def told(of_case, count=None, **about):
    row = {"positions": 16, "requests": 8} | {
        name: dict.fromkeys(FORMS, value)
        for name, value in (("microseconds", 8.0), ("cuda_microseconds", 7.0), ("cuda_reports", 1))
    }
    tables = Outcome("measured", "", {"equal": {"a case": True}, "rows": [row]})
    waits = Outcome("measured", "", {"16 8": {"before": 8, "after": 1, "only the blocks needed": 1}})
    name = next(iter(catalogue.CASES))
    count = count or Outcome("measured", "", {"stock": side(8), "patched": side(1)})
    rest = dict.fromkeys(catalogue.CASES, Outcome("not run", "the budget was used up before it"))
    return document.report(
        ABOUT | about,
        {"seed tables": tables, **rest, name: of_case},
        {"seed tables": waits, **rest, name: count},
        manifest={},
        series=[*catalogue.NOT_CUT, *catalogue.CASES[name].patches, "demo/0001-else.patch"],
        rehearsal=False,
        seconds=(840.0, 100.0),
    )


def test_on_a_gpu_the_page_has_its_times_and_what_cuda_reports():
    page = document.page(told(measured()))
    assert "NVIDIA X, driver 580.1, CUDA 13.0, 16 cores (P)" in page
    assert "commit c0ffee, patches 5e; 100 s of 840." in page
    assert "- the other 1 change" in page
    assert "; vllm-omni/0002, vllm-omni/0012. Stands in: nothing." in page
    assert "| hearing | yes | 90.0 → 30.0 | 94.0 → 58.0 | 1,100 → 31.0 | 8 → 1 | 0 | 9 → 2 | 12.5 → 4.0 |" in page
    assert "| 16 | 8 | 8.0 / 7.0 (8) | 8.0 / 7.0 (1) | 8.0 / 7.0 (1) | 1.00 |" in page
    assert "Rehearsal" not in page
    assert "not been run on a GPU" not in document.whole(told(measured()))
    assert "**It has not been run on a GPU.**" in document.whole(told(measured(), gpu=None))


def test_what_was_not_reached_is_listed_and_makes_it_incomplete():
    report = told(measured())
    assert not report["complete"]
    assert report["faults"] == []
    assert "- vocoder: not run: the budget was used up before it" in document.page(report)


@pytest.mark.parametrize(
    ("outcome", "count", "fault"),
    [
        (
            measured(equal=False, difference=0.5),
            None,
            "hearing: the patched file's results are not the release's (by 0.5)",
        ),
        (Outcome("failed", "RuntimeError: x"), None, "hearing: failed: RuntimeError: x"),
        (Outcome("cannot be cut", "f of a.py needs g"), None, "hearing: cannot be cut: f of a.py needs g"),
        (
            measured(),
            Outcome("failed", "its process ended with -11: x"),
            "hearing: failed: its process ended with -11: x",
        ),
        (
            measured(),
            Outcome("measured", "", {"stock": side(1), "patched": side(1) | {"equal to plain CPU": False}}),
            "hearing: counted, the results are not those of a plain run (patched)",
        ),
    ],
)
def test_a_difference_or_a_failure_is_a_fault(outcome, count, fault):
    report = told(outcome, count)
    assert report["faults"] == [fault]
    assert f"- {fault}" in document.page(report)


def test_where_the_release_differs_from_itself_that_is_told():
    page = document.page(told(measured(equal=False, release_repeats_itself=False)))
    assert "| hearing | **no**, nor the release itself |" in page
    assert "Faults" not in page


def test_without_a_bundle_the_functions_are_told_as_not_run():
    parts = {"seed tables": Outcome("failed", "the forms disagree")}
    report = document.report(ABOUT, parts, parts, manifest={}, series=[], rehearsal=True, seconds=(9.0, 1.0))
    page = document.page(report)
    assert "Not run: no --bundle." in page
    assert report["complete"]
    assert report["faults"] == ["seed tables: failed: the forms disagree"] * 2
    assert page.startswith("**Rehearsal on the CPU: no figure of it is a GPU's.**")
