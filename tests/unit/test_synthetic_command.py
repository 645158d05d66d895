"""``firstword synthetic``: names, progress, all or nothing."""

import errno
import json
import signal
import sys
import types

import pytest
from safetensors import SafetensorError

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


DAMAGE = {
    "removed": lambda folder: (folder / "own.txt").unlink(),
    "emptied": lambda folder: (folder / "part/shared.bin").write_bytes(b""),
    "changed": lambda folder: (folder / "own.txt").write_text("custom_voice 9"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_made_again(builder, tmp_path, damage):
    folder = tmp_path / "made"
    make(NAME, folder)
    DAMAGE[damage](folder)
    assert make(NAME, folder)
    assert (folder / "own.txt").read_text() == "custom_voice 0"
    assert (folder / "part/shared.bin").read_bytes() == b"same for every kind"
    assert not make(NAME, folder)


@pytest.mark.parametrize("mark", ["{}", "[]", "{", '{"name": "qwen3-tts"}', '{"a":' * 100_000], ids=range(5))
def test_a_mark_that_is_none_makes_nobodys_files_ours(builder, tmp_path, mark, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    (tmp_path / "mine" / command.MARK).write_text(mark)
    assert main(["synthetic", NAME, str(tmp_path / "mine")]) == Exit.USAGE
    assert (tmp_path / "mine/thesis.txt").exists()
    assert "not a synthetic checkpoint" in capsys.readouterr().err


def refused(capsys, *words):
    assert main(["synthetic", NAME, *map(str, words)]) == Exit.USAGE
    err = capsys.readouterr().err
    assert err.count("\n") == 2
    assert "mend:" in err
    return err


def test_folders_that_cannot_be_made(builder, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("x")
    assert "file is no folder" in refused(capsys, tmp_path / "file/below")
    (tmp_path / "gone").symlink_to("nowhere")
    assert "is a link" in refused(capsys, tmp_path / "gone")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert "is a link" in refused(capsys, tmp_path / "link")
    monkeypatch.chdir(tmp_path / "real")
    assert "runs in" in refused(capsys, ".")
    assert "a seed is 0 or more" in refused(capsys, tmp_path / "made", "--seed", "-1")
    monkeypatch.setattr(
        command.tempfile, "TemporaryDirectory", fail_with(OSError(errno.EROFS, "Read-only file system"))
    )
    assert "Read-only file system" in refused(capsys, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def fail_with(error):
    def fail(*_, **__):
        raise error

    return fail


def test_a_disk_that_a_library_finds_full(builder, tmp_path, monkeypatch):
    error = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    monkeypatch.setattr(builder, "build", fail_with(error))
    assert main(["synthetic", NAME, str(tmp_path / "made")]) == Exit.DISK_FULL
    monkeypatch.setattr(builder, "build", fail_with(RuntimeError("a defect")))
    with pytest.raises(RuntimeError, match="a defect"):
        make(NAME, tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_when_it_is_told_to_end(builder, tmp_path, monkeypatch, number):
    monkeypatch.setattr(builder, "build", lambda *_: signal.raise_signal(number))
    with pytest.raises(SystemExit) as ended:
        main(["synthetic", NAME, str(tmp_path / "made")])
    assert ended.value.code == 128 + number
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(number) is signal.SIG_DFL


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
