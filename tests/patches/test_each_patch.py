"""Each patch does what its header says, and without it the same check finds the fault.

A check runs on the installed packages' own classes with the synthetic weights and returns facts.
`right` are the facts with the whole series, `wrong` those without the patch (and without what
depends on it): so every test here can fail, and does when its patch is reverted.
"""

import pytest
from cases import CASES
from forks import Run

from firstword.patching import Series


def test_every_patch_has_a_case(series: Series) -> None:
    assert sorted(CASES) == sorted(patch.name for patch in series.patches)


@pytest.mark.parametrize("patch", CASES)
def test_with_the_series(run: Run, patch: str) -> None:
    case = CASES[patch]
    facts = run(case.check)
    assert {key: facts.get(key) for key in case.right} == case.right, facts


@pytest.mark.parametrize("patch", CASES)
def test_without_the_patch(run: Run, patch: str) -> None:
    case = CASES[patch]
    facts = run(case.check, without=patch)
    assert {key: facts.get(key) for key in case.wrong} == case.wrong, facts
    # The test above would fail on these facts.
    assert {key: facts.get(key) for key in case.right} != case.right
