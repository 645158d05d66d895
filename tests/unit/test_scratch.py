"""The folder that ends with an engine, and the lock that lets one supervisor have a port."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from firstword.engine.scratch import alone, scratch
from firstword.errors import Exit, FirstwordError


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_ends_with_its_owner_and_leaves_others_alone(temporary):
    with scratch() as one:
        (one / "socket").touch()
        with scratch() as other:
            assert one.is_dir()
            assert other != one
    assert list(temporary.iterdir()) == []


def test_what_a_killed_owner_left_goes_with_the_next(temporary):
    code = (
        "import os, sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from firstword.engine.scratch import scratch\n"
        "with scratch() as folder: print(folder, flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(temporary)], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [str(left) for left in temporary.iterdir()] == [killed.stdout.strip()]
    with scratch() as mine:
        assert list(temporary.iterdir()) == [mine]


def test_no_place_is_one_clear_line(temporary, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "not there"))
    with pytest.raises(FirstwordError, match="no folder for temporary files") as caught, scratch():
        pass
    assert caught.value.code == Exit.DISK_FULL


def test_the_second_on_a_port_is_refused_and_takes_nothing_away(temporary):
    file = temporary / "run" / "engine-1.lock"
    with alone(file, "serves on port 1"):
        with (
            pytest.raises(FirstwordError, match="another firstword serves on port 1") as caught,
            alone(file, "serves on port 1"),
        ):
            pass
        assert caught.value.code == Exit.PORT_IN_USE
        assert file.exists()
    assert not file.exists()
    with alone(file, "serves on port 1"):
        pass


def test_a_run_folder_that_cannot_be_made_is_one_clear_line(temporary):
    (temporary / "file").touch()
    with pytest.raises(FirstwordError, match="cannot be written") as caught, alone(temporary / "file/run/x.lock", "x"):
        pass
    assert caught.value.code == Exit.ENVIRONMENT
    assert os.path.lexists(temporary / "file")
