"""``firstword synthetic``: names, progress, all or nothing."""

import errno
import json
import sys
import types

import pytest

from firstword.cli import main
from firstword.errors import Exit
from firstword.synthetic import command

NAME, SIBLING = "qwen3-tts-customvoice-synthetic", "qwen3-tts-base-synthetic"


@pytest.fixture
def builder(monkeypatch):
    """Replace the model's module by one that writes two small files, and count its calls."""
    calls = []

    def build(kind, folder, seed, report):
        calls.append((kind, seed))
        report("one step")
        (folder / "part").mkdir()
        (folder / "part" / "shared.bin").write_bytes(b"same for every kind")
        (folder / "own.txt").write_text(f"{kind} {seed}")

    module = types.SimpleNamespace(build=build, calls=calls)
    monkeypatch.setitem(sys.modules, "firstword.synthetic.qwen3_tts", module)
    return module


def make(name, folder, seed=0):
    return command.make(name, folder, seed, lambda line: None)


def test_help_lists_every_name(capsys):
    with pytest.raises(SystemExit):
        main(["synthetic", "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in command.NAMES)
    assert len(command.NAMES) == 4


def test_prints_the_folder_and_reports_progress(builder, tmp_path, capsys):
    assert main(["synthetic", NAME, str(tmp_path / "made"), "--seed", "7"]) == Exit.OK
    out, err = capsys.readouterr()
    assert out.strip() == str(tmp_path / "made")
    assert "one step" in err
    assert builder.calls == [("custom_voice", 7)]


def test_unknown_name(tmp_path, capsys):
    assert main(["synthetic", "qwen3-tts", str(tmp_path / "made")]) == Exit.MODEL_UNKNOWN
    err = capsys.readouterr().err
    assert "'qwen3-tts'" in err
    assert NAME in err
    assert not (tmp_path / "made").exists()


def test_equal_checkpoint_is_kept_and_an_older_one_replaced(builder, tmp_path):
    folder = tmp_path / "made"
    assert make(NAME, folder)
    assert not make(NAME, folder)
    assert make(NAME, folder, seed=1)
    assert (folder / "own.txt").read_text() == "custom_voice 1"
    mark = json.loads((folder / command.MARK).read_text())
    (folder / command.MARK).write_text(json.dumps(mark | {"recipe": "of another day"}))
    (folder / "left.txt").write_text("over")
    assert make(NAME, folder, seed=1)
    assert not (folder / "left.txt").exists()


def test_foreign_folder_is_left_alone(builder, tmp_path, capsys):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    assert main(["synthetic", NAME, str(folder)]) == Exit.USAGE
    assert [file.name for file in folder.iterdir()] == ["thesis.txt"]
    assert "not a synthetic checkpoint" in capsys.readouterr().err


def test_an_empty_folder_is_fine(builder, tmp_path):
    assert make(NAME, tmp_path)


def test_nothing_is_left_of_a_build_that_failed(builder, tmp_path, monkeypatch):
    folder = tmp_path / "made"
    make(NAME, folder)

    def fail(kind, target, seed, report):
        (target / "half").write_text("a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(builder, "build", fail)
    assert main(["synthetic", NAME, str(folder), "--seed", "1"]) == Exit.DISK_FULL
    assert [entry.name for entry in tmp_path.iterdir()] == ["made"]
    assert (folder / "own.txt").read_text() == "custom_voice 0"


def test_equal_files_of_siblings_are_one(builder, tmp_path):
    make(NAME, tmp_path / "one")
    make(SIBLING, tmp_path / "two")
    assert (tmp_path / "one/part/shared.bin").samefile(tmp_path / "two/part/shared.bin")
    assert not (tmp_path / "one/own.txt").samefile(tmp_path / "two/own.txt")


def test_files_of_other_folders_are_not_linked(builder, tmp_path):
    (tmp_path / "published" / "part").mkdir(parents=True)
    (tmp_path / "published" / "part" / "shared.bin").write_bytes(b"same for every kind")
    make(NAME, tmp_path / "one")
    assert not (tmp_path / "one/part/shared.bin").samefile(tmp_path / "published/part/shared.bin")
