"""A downloaded model on later starts: fast when nothing changed, refused when something did."""

import os
import shutil
import stat
from pathlib import Path

import pytest
from models_kit import NAME, REVISION, tiny_hub, use, write_lock

from firstword.engine import models
from firstword.engine.models import code, digests, download, locks, record, verify
from firstword.errors import Exit, FirstwordError
from loopback_hub import LoopbackHub, serving


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A downloaded model; afterwards nobody answers at the hub's address."""
    with serving(tiny_hub()) as hub:
        use(monkeypatch, tmp_path, hub)
        write_lock(tmp_path / "root", hub, {"model.safetensors": True})
        return models.resolve(NAME).path


def refused(**options) -> FirstwordError:
    with pytest.raises(FirstwordError) as caught:
        models.resolve(NAME, offline=True, **options)
    return caught.value


def test_a_later_start_reads_nothing_however_large_the_files_are(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(3_000_000_000)
    note = record.Record.load(folder, locks.load(NAME))
    note.set_verified("model.safetensors", locks.load(NAME).files["model.safetensors"].sha256 or "")
    files = verify.expected(locks.load(NAME), note)
    assert files is not None
    files["model.safetensors"] = locks.Expected("model.safetensors", 3_000_000_000, note.verified["model.safetensors"])
    state = verify.check(folder, files, note)
    assert state.is_whole
    assert state.read == []


@pytest.mark.parametrize("path", ["model.safetensors", "configuration_tiny.py", "token2wav/flow.yaml", "config.json"])
def test_changed_bytes_of_the_same_length_are_refused(folder: Path, path: str) -> None:
    content = bytearray((folder / path).read_bytes())
    content[-2] ^= 1
    (folder / path).write_bytes(content)
    error = refused()
    assert error.code is Exit.CHECKSUM
    assert path in error.cause
    assert error.mend == f"firstword models download {NAME} --repair"


def test_a_cut_file_is_refused(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 1000)
    assert "is 1000 bytes long" in refused().cause


def compared(folder: Path, note: record.Record | None = None) -> verify.State:
    note = note or record.Record.load(folder, locks.load(NAME))
    files = verify.expected(locks.load(NAME), note)
    assert files is not None
    return verify.check(folder, files, note)


def test_a_file_of_another_length_need_not_be_read(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 1000)
    state = compared(folder)
    assert "is 1000 bytes long" in state.damaged["model.safetensors"]
    assert state.read == []


def test_a_record_that_disagrees_with_the_lock_is_no_proof(folder: Path) -> None:
    """The lock may have been corrected since; what was once recorded is not taken for what it now says."""
    note = record.Record.load(folder, locks.load(NAME))
    note.set_verified("model.safetensors", "0" * 64)
    state = compared(folder, note)
    assert state.read == ["model.safetensors"]
    assert state.is_whole
    assert note.verified["model.safetensors"] == locks.load(NAME).files["model.safetensors"].sha256


def test_another_file_of_the_same_length_and_time_is_refused(folder: Path) -> None:
    """What unpacks or synchronises files sets their times too."""
    file = folder / "model.safetensors"
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    other = folder.parent / "other"
    other.write_bytes(content)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)
    assert "model.safetensors" in refused().cause


@pytest.mark.parametrize("path", ["evil.py", "more.safetensors", "token2wav/other.pt", "notes.txt"])
def test_a_file_that_does_not_belong_there_is_refused(folder: Path, path: str) -> None:
    (folder / path).write_bytes(b"import os\n")
    error = refused()
    assert error.code is Exit.CHECKSUM
    assert path in error.cause


def test_a_linked_folder_does_not_belong_there(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "assets").symlink_to(tmp_path / "elsewhere")
    assert "assets" in refused().cause


def test_a_file_that_was_only_touched_is_read_again_and_remembered(folder: Path) -> None:
    os.utime(folder / "model.safetensors")
    told: list[str] = []
    models.resolve(NAME, offline=True, report=told.append)
    models.resolve(NAME, offline=True, report=told.append)
    assert told == [f"verified 1 files of {NAME}"]


def test_full_sees_what_size_and_time_do_not_show(folder: Path) -> None:
    """Bytes that rot on the disk: same length, same time, same inode."""
    path = folder / "model.safetensors"
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"\xff\xfe")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    models.resolve(NAME, offline=True)
    error = refused(full=True)
    assert error.code is Exit.CHECKSUM
    assert "model.safetensors" in error.cause


def test_full_on_a_good_model(folder: Path) -> None:
    told: list[str] = []
    models.resolve(NAME, offline=True, full=True, report=told.append)
    assert told == [f"verified 9 files of {NAME}"]


def test_a_lost_record_needs_the_hub_once(folder: Path) -> None:
    (folder / record.NAME).unlink()
    error = refused()
    assert error.code is Exit.CHECKPOINT_INCOMPLETE
    assert f"firstword models download {NAME}" in error.mend


def test_a_broken_record_counts_as_none(folder: Path) -> None:
    (folder / record.NAME).write_text('{"format": 1')
    assert refused().code is Exit.CHECKPOINT_INCOMPLETE


def test_a_lost_record_does_not_fetch_again(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (folder / record.NAME).unlink()
    with serving(tiny_hub()) as hub:
        use(monkeypatch, tmp_path, hub)
        models.resolve(NAME)
        assert not [seen for seen in hub.seen if seen.server == "cdn"]


def test_repair_replaces_what_differs(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"x" * (folder / "model.safetensors").stat().st_size)
    with serving(tiny_hub()) as hub:
        use(monkeypatch, tmp_path, hub)
        download.download(locks.load(NAME), folder, report=lambda line: None, repair=True)
        assert [seen.path for seen in hub.seen if seen.server == "cdn"] == ["/cdn/model.safetensors"]
    models.resolve(NAME, offline=True)


def test_a_read_only_folder_serves_and_says_what_it_costs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(record.Record, "save", refuse)
    os.utime(folder / "model.safetensors")
    told: list[str] = []
    models.resolve(NAME, offline=True, report=told.append)
    assert any("Read-only file system" in line and "next start" in line for line in told)


def test_the_folder_by_its_path_is_verified_as_by_its_name(folder: Path) -> None:
    checkpoint = models.resolve(folder)
    assert (checkpoint.name, checkpoint.revision, checkpoint.path) == (NAME, REVISION, folder)
    code.require_known(folder)
    (folder / "configuration_tiny.py").write_bytes(b"import os  # not it\n   \n")
    with pytest.raises(FirstwordError) as caught:
        models.resolve(folder)
    assert caught.value.code is Exit.CHECKSUM
    with pytest.raises(FirstwordError):
        code.require_known(folder)


def test_a_record_that_comes_with_a_folder_from_elsewhere_proves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / NAME
    shutil.copytree(folder, moved)
    with pytest.raises(FirstwordError) as caught:
        models.resolve(moved)
    assert caught.value.code is Exit.CHECKSUM
    assert "nobody has verified: configuration_tiny.py" in caught.value.cause
    monkeypatch.setenv("FIRSTWORD_TRUST_CODE", digests.digest(moved / "configuration_tiny.py").sha256)
    assert models.resolve(moved).revision is None


def test_a_lock_that_describes_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    hub = tiny_hub()
    write_lock(tmp_path / "root", hub, {"model.safetensors": True}, family="qwen3-tts", kind="base")
    locks._read.cache_clear()
    assert "holds a step-audio-2 mini" in refused().cause


def test_the_record_is_no_secret_and_no_program(folder: Path) -> None:
    assert not (folder / record.NAME).stat().st_mode & stat.S_IXUSR


def test_the_model_is_known_by_its_repository_too(folder: Path) -> None:
    hub: LoopbackHub = tiny_hub()
    assert models.resolve(hub.repository, offline=True).name == NAME
