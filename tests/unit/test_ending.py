"""How commands end: one line of cause, one that mends it, and nothing left in a pipe."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from no_override import no_override

from firstword import cli, commands, ending, paths
from firstword.errors import Exit, FirstwordError
from firstword.native.__main__ import main as native

FULL = Path("/dev/full")


@pytest.fixture(autouse=True)
def handlers():
    """`native` ends in order when it is told to end, and so would every later test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def raising(error: BaseException):
    def work() -> int:
        raise error

    return work


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EACCES, Exit.NO_ACCESS),
        (errno.EROFS, Exit.NO_ACCESS),
        (errno.ENOENT, Exit.NO_ACCESS),
        (errno.ENAMETOOLONG, Exit.NO_ACCESS),
        (errno.ENOSPC, Exit.DISK_FULL),
    ],
)
def test_what_the_system_refuses_is_one_line(capsys, number, code):
    assert ending.run("firstword x", raising(OSError(number, os.strerror(number), "/some/file")), as_json=True) == code
    out, err = capsys.readouterr()
    assert err.count("\n") == 2
    assert f"/some/file: {os.strerror(number)}" in err
    assert "  mend: " in err
    assert json.loads(out)["error"]["kind"] == code.name.lower()


@pytest.mark.parametrize("error", [OSError("odd"), OSError(errno.EMFILE, "Too many", "/x"), ConnectionResetError()])
def test_what_tells_of_a_defect_keeps_its_traceback(error):
    with pytest.raises(type(error)):
        ending.run("firstword x", raising(error))


def test_a_folder_in_firstwords_home_has_another_mend(monkeypatch, tmp_path):
    monkeypatch.setenv("FIRSTWORD_HOME", str(tmp_path / "home"))
    told = ending.of_system(PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "home/run/x")))
    assert "FIRSTWORD_HOME" in told.mend
    assert "FIRSTWORD_HOME" not in ending.of_system(PermissionError(errno.EACCES, "no", "/etc/x")).mend


def firstword(*words: str, stdout: int, **more: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "firstword", *words]
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, env=os.environ | more, timeout=60
    )


def test_output_that_cannot_be_written_is_told():
    with FULL.open("w") as full:
        ended = firstword("models", "list", stdout=full.fileno())
    assert ended.returncode == Exit.DISK_FULL
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr


def test_a_reader_that_has_left_is_no_failure_to_speak_of():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = firstword("models", "list", stdout=writing)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (Exit.NO_READER, "")


@pytest.mark.parametrize("arguments", [[], ["foo"], [""]])
def test_native_names_its_commands(capsys, arguments):
    assert native(arguments) == Exit.USAGE
    assert "use scripts/up, scripts/test, scripts/lock" in capsys.readouterr().err


@pytest.mark.parametrize("mode", [0o555, 0o000, None], ids=["read-only", "closed", "no folder"])
@pytest.mark.parametrize("command", [["up"], ["lock", "--check"], ["test", "lint"]], ids=lambda words: words[0])
def test_a_home_that_cannot_be_used(capsys, monkeypatch, tmp_path, command, mode):
    home = tmp_path / "home"
    home.write_text("") if mode is None else home.mkdir(mode)
    monkeypatch.setenv("FIRSTWORD_HOME", str(home))
    with no_override():
        assert native(command) == Exit.NO_ACCESS
    home.chmod(0o700)
    assert "FIRSTWORD_HOME can name" in capsys.readouterr().err
    assert home.is_file() or not list(home.iterdir())


@pytest.mark.parametrize("words", [["models", "list"], ["models", "verify"], ["patches", "tree", "{home}/x"]])
def test_a_home_that_is_closed_to_firstword(capsys, monkeypatch, tmp_path, words):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("FIRSTWORD_HOME", str(home))
    home.chmod(0)
    with no_override():
        assert cli.main([word.format(home=home) for word in words]) == Exit.NO_ACCESS
    home.chmod(0o700)
    assert "Permission denied" in capsys.readouterr().err


class TestCommandsAsTheyCanBeTyped:
    @pytest.fixture
    def home(self, monkeypatch, tmp_path):
        monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
        monkeypatch.setenv("FIRSTWORD_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("PATH", str(tmp_path / "path"))
        for file in ("prefix/bin/firstword", "home/uv/bin/uv"):
            self.program(tmp_path / file)
        return tmp_path

    def program(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)

    def test_the_running_programs_own_path_where_path_has_none(self, home):
        own, uv = home / "prefix/bin/firstword", home / "home/uv/bin/uv"
        assert commands.typed("uv pip install x && firstword patches apply") == (
            f"{uv} pip install x && {own} patches apply"
        )
        assert commands.typed("see `firstword models list`") == f"see `{own} models list`"
        error = FirstwordError("x", mend="firstword serve m", code=Exit.USAGE)
        assert str(error).endswith(f"mend: {own} serve m")
        assert error.as_dict()["mend"] == f"{own} serve m"

    @pytest.mark.parametrize("text", ["a firstword checkout", "/opt/firstword patches", "firstword-uv pip ", "x"])
    def test_what_is_no_command_stays(self, home, text):
        assert commands.typed(text) == text

    def test_the_name_where_path_has_it(self, home):
        (home / "path").mkdir()
        (home / "path/firstword").symlink_to(home / "prefix/bin/firstword")
        self.program(home / "path/uv")
        assert commands.typed("uv pip x; firstword serve m") == "uv pip x; firstword serve m"

    def test_another_environments_program_is_not_this_one(self, home):
        self.program(home / "path/firstword")
        assert commands.typed("firstword serve m") == f"{home}/prefix/bin/firstword serve m"

    def test_without_any_the_name(self, home):
        (home / "prefix/bin/firstword").unlink()
        assert commands.typed("firstword serve m") == "firstword serve m"
        assert paths.home() == home / "home"
