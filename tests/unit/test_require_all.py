"""``--require-all``: in CI, a test that was not run is a failure."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CASES = {
    "passes": ("def test_a(): pass", [], 0, []),
    "fails": ("def test_a(): assert 0", [], 1, []),
    "skip": (
        "import pytest\n@pytest.mark.skip\ndef test_a(): pass\ndef test_b(): pass",
        [],
        1,
        ["skipped: t.py::test_a"],
    ),
    "skip inside": ("import pytest\ndef test_a(): pytest.skip()\ndef test_b(): pass", [], 1, ["skipped: t.py::test_a"]),
    "skipped module": ("import pytest\npytest.importorskip('nowhere')", [], 5, ["skipped at collection: t.py"]),
    "expected to fail": (
        "import pytest\n@pytest.mark.xfail\ndef test_a(): assert 0\ndef test_b(): pass",
        [],
        1,
        ["expected to fail: t.py::test_a"],
    ),
    "passes unexpectedly": (
        "import pytest\n@pytest.mark.xfail\ndef test_a(): pass\ndef test_b(): pass",
        [],
        1,
        ["expected to fail: t.py::test_a"],
    ),
    "deselected": ("def test_a(): pass\ndef test_b(): pass", ["-k", "test_b"], 1, ["deselected: t.py::test_a"]),
    "stopped early": (
        "def test_a(): pass\ndef test_b(): assert 0\ndef test_c(): pass",
        ["-x"],
        1,
        ["not run: t.py::test_c"],
    ),
    "no fixture": (
        "import pytest\n@pytest.fixture\ndef f(): pytest.skip()\ndef test_a(f): pass\ndef test_b(): pass",
        [],
        1,
        ["skipped: t.py::test_a"],
    ),
    "nothing": ("", [], 5, []),
}


# With pytest-xdist; what is deselected its controller does not hear of.
SIDE_BY_SIDE = [name for name, case in CASES.items() if not case[1]]


@pytest.mark.parametrize(
    ("name", "more"), [*((name, []) for name in CASES), *((name, ["-n2"]) for name in SIDE_BY_SIDE)]
)
def test_what_was_not_run_fails_the_session(name, more, tmp_path):
    source, options, code, told = CASES[name]
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "t.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = t.py\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--require-all", *options, *more]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == code, result.stdout
    assert ("required, but not" in result.stdout) == bool(told)
    for line in told:
        assert line in result.stdout


def test_without_it_a_skip_is_no_failure(tmp_path):
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_t.py").write_text("import pytest\n@pytest.mark.skip\ndef test_a(): pass\ndef test_b(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert subprocess.run(command, cwd=tmp_path, check=False, capture_output=True).returncode == 0
