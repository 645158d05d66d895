"""Downloading with the real huggingface_hub from a hub on loopback."""

import json
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from models_kit import CODE, LFS, NAME, REVISION, SERVED, safetensors, tiny_hub, use, write_lock

from firstword.engine import models
from firstword.engine.models import download, locks, record
from firstword.errors import Exit, FirstwordError
from loopback_hub import LoopbackHub, serving


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    """The tiny model on the hub, with a lock that knows the weights and, of token2wav, a size."""
    with serving(tiny_hub()) as hub:
        use(monkeypatch, tmp_path, hub)
        write_lock(tmp_path / "root", hub, {"model.safetensors": True, "token2wav/flow.pt": False})
        yield hub


def failure(**options) -> FirstwordError:
    with pytest.raises(FirstwordError) as caught:
        models.resolve(NAME, **options)
    assert "\n" not in caught.value.cause + caught.value.mend
    return caught.value


def folder() -> Path:
    return models.models_folder() / NAME


def held() -> set[str]:
    return {p.relative_to(folder()).as_posix() for p in folder().rglob("*") if p.is_file()} - {record.NAME}


def test_a_model_is_downloaded_verified_and_recognised(hub: LoopbackHub) -> None:
    told: list[str] = []
    checkpoint = models.resolve(NAME, report=told.append)
    assert (checkpoint.name, checkpoint.family, checkpoint.kind) == (NAME, "step-audio-2", "mini")
    assert checkpoint.path == folder().resolve()
    assert checkpoint.revision == REVISION
    assert held() == set(SERVED)  # neither README.md nor .gitattributes, and no partial file
    for path in SERVED:
        assert (folder() / path).read_bytes() == hub.files[path]
    assert any("0.00 GB" in line and "9 files" in line for line in told)
    (noted,) = [line for line in told if "checked against the hub and recorded" in line]
    assert "configuration_tiny.py" in noted
    assert "model.safetensors" not in noted


def test_the_second_time_asks_nobody_and_reads_nothing(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    models.resolve(NAME)
    hub.seen.clear()
    monkeypatch.setattr(models.resolution.verify, "digest", lambda *_: pytest.fail("a file was read again"))
    assert models.resolve(NAME).path == folder().resolve()
    assert hub.seen == []


def test_only_what_is_missing_is_fetched(hub: LoopbackHub) -> None:
    models.resolve(NAME)
    (folder() / "token2wav/hift.pt").unlink()
    hub.seen.clear()
    models.resolve(NAME)
    assert {s.path.rpartition("/")[2] for s in hub.seen if s.server == "cdn"} == {"hift.pt"}


def test_a_broken_connection_is_continued_where_it_broke(hub: LoopbackHub) -> None:
    hub.break_after["model.safetensors"] = [100_000, 50_000]
    models.resolve(NAME)
    first, second, third = hub.transfers("model.safetensors")
    assert "range" not in first.headers
    # What arrived in whole chunks before the break stays.
    assert int(second.headers["range"].removeprefix("bytes=").removesuffix("-")) >= 100_000 - 16 * 1024
    assert int(third.headers["range"].removeprefix("bytes=").removesuffix("-")) > 100_000
    assert (folder() / "model.safetensors").read_bytes() == hub.files["model.safetensors"]


def test_a_later_run_goes_on_where_an_earlier_one_stopped(hub: LoopbackHub) -> None:
    hub.break_after["model.safetensors"] = [150_000, *[0] * 20]  # more breaks than are tried in one run
    error = failure()
    assert error.code is Exit.DOWNLOAD
    assert "what is here already is kept" in error.mend
    assert not (folder() / "model.safetensors").exists()
    hub.break_after.clear()
    hub.seen.clear()
    models.resolve(NAME)
    (transfer,) = hub.transfers("model.safetensors")
    assert int(transfer.headers["range"].removeprefix("bytes=").removesuffix("-")) >= 150_000 - 16 * 1024
    assert not (folder() / ".partial").exists()


def test_a_partial_file_that_was_damaged_is_fetched_anew(hub: LoopbackHub) -> None:
    hub.break_after["model.safetensors"] = [150_000, *[0] * 20]
    failure()
    (part,) = (folder() / ".partial").glob("model.safetensors.*")
    part.write_bytes(b"\0" * part.stat().st_size)
    hub.break_after.clear()
    models.resolve(NAME)
    assert (folder() / "model.safetensors").read_bytes() == hub.files["model.safetensors"]


def test_an_incomplete_download_never_counts_as_complete(hub: LoopbackHub) -> None:
    hub.break_after["model.safetensors"] = [150_000, *[0] * 20]
    failure()
    error = failure(offline=True)
    assert error.code is Exit.CHECKPOINT_INCOMPLETE
    assert "model.safetensors" in error.cause
    assert f"firstword models download {NAME}" in error.mend


@pytest.mark.parametrize("path", ["model.safetensors", "token2wav/hift.pt", "tokenizer_config.json"])
def test_corrupted_bytes_are_refused(hub: LoopbackHub, path: str) -> None:
    """Known to the lock, known only to the hub by sha256, and by git's sha1."""
    hub.corrupt.add(path)
    error = failure()
    assert error.code is Exit.CHECKSUM
    assert path in error.cause
    assert not (folder() / path).exists()
    hub.corrupt.clear()
    models.resolve(NAME)


def test_a_hub_that_changes_a_file_known_to_the_lock_is_refused_before_the_transfer(hub: LoopbackHub) -> None:
    hub.files["model.safetensors"] = safetensors(300_000, seed=1)
    error = failure()
    assert error.code is Exit.CHECKSUM
    assert "says sha256" in error.cause
    assert not hub.transfers("model.safetensors")


def test_a_hub_that_changes_a_size_known_to_the_lock_is_refused(hub: LoopbackHub) -> None:
    hub.files["token2wav/flow.pt"] += b"x"
    assert "says 5001 bytes instead of 5000" in failure().cause


def test_a_hub_that_lacks_a_locked_file_is_refused(hub: LoopbackHub) -> None:
    del hub.files["token2wav/flow.pt"]
    assert "does not list it" in failure().cause


def test_another_revision_is_refused(hub: LoopbackHub) -> None:
    hub.answers_for = "b" * 40
    error = failure()
    assert error.code is Exit.CHECKSUM
    assert "b" * 40 in error.cause
    assert REVISION in error.cause


def test_another_revision_of_a_single_file_is_refused(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    info = hub.info()
    monkeypatch.setattr(hub, "info", lambda: info)
    hub.answers_for = "b" * 40
    assert failure().code is Exit.CHECKSUM


@pytest.mark.parametrize(
    ("status", "words"), [(401, "HF_TOKEN"), (403, "terms"), (404, "HF_ENDPOINT"), (500, "run the same command")]
)
@pytest.mark.parametrize("where", ["api", "tokenizer_config.json", "model.safetensors"])
def test_refusals_say_what_to_do(hub: LoopbackHub, status: int, words: str, where: str) -> None:
    hub.status[where] = status
    error = failure()
    assert error.code is Exit.DOWNLOAD
    assert f"127.0.0.1 answered {status}" in error.cause
    assert words in error.mend


def test_nobody_answers(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    error = failure()
    assert error.code is Exit.DOWNLOAD
    assert "ConnectError" in error.cause


@pytest.mark.parametrize("path", ["../escape.py", "a/../../b", "/etc/x", "a/.hidden/x", "a\\b"])
def test_a_path_that_leaves_the_folder_is_refused(hub: LoopbackHub, path: str) -> None:
    hub.files[path] = b"x"
    error = failure()
    assert error.code is Exit.CHECKSUM
    assert "cannot be stored" in error.cause
    assert not hub.transfers("model.safetensors")


def test_offline_never_touches_the_network(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    error = failure(offline=True)
    assert error.cause.endswith(f"was never downloaded ({models.models_folder() / NAME})")  # nobody forbade anything
    assert error.mend == f"firstword models download {NAME}"
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "1")
    assert f"env -u TRANSFORMERS_OFFLINE firstword models download {NAME}" in failure().mend
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    error = failure()
    assert error.code is Exit.CHECKPOINT_INCOMPLETE
    assert f"env -u HF_HUB_OFFLINE firstword models download {NAME}" in error.mend
    assert hub.seen == []


def test_offline_with_everything_here(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    models.resolve(NAME)
    hub.seen.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    models.resolve(NAME)
    assert hub.seen == []


def test_offline_names_every_missing_file(hub: LoopbackHub) -> None:
    models.resolve(NAME)
    (folder() / "model.safetensors").unlink()
    shutil.rmtree(folder() / "token2wav")
    error = failure(offline=True)
    assert error.code is Exit.CHECKPOINT_INCOMPLETE
    assert "model.safetensors" in error.cause
    assert "and 1 more" in error.cause


def test_a_full_disk_is_said_before_the_transfer(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 300_000_000})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    models.resolve(NAME)
    shutil.rmtree(folder())
    hub.seen.clear()
    monkeypatch.setattr(usage, "free", 100_000)
    error = failure()
    assert error.code is Exit.DISK_FULL
    assert "FIRSTWORD_HOME" in error.mend
    assert not [s for s in hub.seen if s.server == "cdn"]


def test_room_is_left_beside_the_model(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full to the last byte fails the engine's caches and logs."""
    size = sum(len(hub.files[path]) for path in SERVED)
    usage = type("Usage", (), {"free": size + 100_000_000})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert failure().code is Exit.DISK_FULL


def test_parts_that_nothing_continues_give_their_room_back_first(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another revision, say: gigabytes that would make a disk too small for the one that is wanted."""
    stale = folder() / ".partial" / "model.safetensors.0123456789abcdef"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"x" * 1000)
    left = []

    def usage(_: Path) -> object:
        left.append(stale.exists())
        return type("Usage", (), {"free": 10**12})

    monkeypatch.setattr(shutil, "disk_usage", usage)
    models.resolve(NAME)
    assert left == [False]


def test_every_file_is_on_the_disk_before_the_record_says_so(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut a record that outlived the content would vouch for zeros."""
    synced = set()
    monkeypatch.setattr(os, "fsync", lambda number: synced.add(os.fstat(number).st_ino))
    models.resolve(NAME)
    assert {(folder() / path).stat().st_ino for path in SERVED} <= synced


def test_the_first_failure_stops_the_other_transfers() -> None:
    """They would go on for gigabytes while the command ends."""
    stopped = []
    progress = type("Watched", (), {"stop": lambda self: stopped.append(True)})()

    def bring(file: locks.Expected) -> None:
        raise FirstwordError("broken", mend="-", code=Exit.DOWNLOAD)

    with pytest.raises(FirstwordError, match="broken"):
        download._in_parallel(bring, [locks.Expected("a", 1, None)], progress)
    assert stopped == [True]


def test_a_disk_that_fills_up_on_the_way(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download.Progress, "add", full)
    assert failure().code is Exit.DISK_FULL


def test_files_of_the_hugging_face_cache_are_used(hub: LoopbackHub, tmp_path: Path) -> None:
    snapshot = tmp_path / "hf" / "models--somebody--Tiny-Step" / "snapshots" / REVISION
    (snapshot / "token2wav").mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(hub.files["model.safetensors"])
    (snapshot / "token2wav/flow.pt").write_bytes(b"w" * 5000)  # another content: not used
    models.resolve(NAME)
    assert not hub.transfers("model.safetensors")
    assert (folder() / "model.safetensors").stat().st_ino == (snapshot / "model.safetensors").stat().st_ino
    assert (folder() / "token2wav/flow.pt").read_bytes() == hub.files["token2wav/flow.pt"]


def test_the_token_goes_to_the_endpoint_only_and_into_no_message(
    hub: LoopbackHub,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.INFO)
    logging.getLogger("httpx").setLevel(logging.INFO)
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    hub.break_after["model.safetensors"] = [100_000]
    told: list[str] = []
    models.resolve(NAME, report=told.append)
    hub.status["token2wav/hift.pt"] = 500
    (folder() / "token2wav/hift.pt").unlink()
    error = failure(report=told.append)
    assert all("authorization" in s.headers for s in hub.seen if s.server == "hub")
    cdn = [s for s in hub.seen if s.server == "cdn"]
    assert cdn
    assert not any("authorization" in s.headers for s in cdn)
    out = capfd.readouterr()
    everything = "".join([*told, caplog.text, str(error), out.out, out.err, repr(error.__context__)])
    assert "hf_very_secret" not in everything
    assert "secret-signature" not in everything


def test_a_lock_that_names_every_file_takes_nothing_else(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lock(tmp_path / "root", hub, dict.fromkeys(SERVED, True), complete=True)
    models.locks._read.cache_clear()
    hub.files["extra.py"] = b"import os\n"
    models.resolve(NAME)
    assert held() == set(SERVED)


def test_remote_code_that_the_hub_changes_is_refused(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lock(tmp_path / "root", hub, {"configuration_tiny.py": True})
    models.locks._read.cache_clear()
    hub.files["configuration_tiny.py"] = CODE.replace(b"pass", b"evil")
    # A small file: the hub's listing has git's sha1 only, so that the transfer shows it.
    error = failure()
    assert error.code is Exit.CHECKSUM
    assert "configuration_tiny.py" in error.cause
    assert not (folder() / "configuration_tiny.py").exists()


def test_a_hub_that_lists_other_files_later_is_refused(hub: LoopbackHub) -> None:
    models.resolve(NAME)
    hub.files["configuration_tiny.py"] = CODE.replace(b"pass", b"evil")
    (folder() / "configuration_tiny.py").unlink()
    error = failure()
    assert error.code is Exit.CHECKSUM
    assert "than at the first download: configuration_tiny.py" in error.cause


def test_what_was_recorded_must_match_later(hub: LoopbackHub) -> None:
    models.resolve(NAME)
    noted = json.loads((folder() / record.NAME).read_text())
    assert noted["verified"]["configuration_tiny.py"] == hub.sha256("configuration_tiny.py")
    noted["stats"] = {}
    noted["verified"]["configuration_tiny.py"] = "0" * 64
    (folder() / record.NAME).write_text(json.dumps(noted))
    error = failure()
    assert error.code is Exit.CHECKSUM
    assert "configuration_tiny.py has sha256" in error.cause


def test_a_new_revision_in_the_lock_fetches_only_what_changed(hub: LoopbackHub, tmp_path: Path) -> None:
    models.resolve(NAME)
    hub.revision = "c" * 40
    hub.files["token2wav/hift.pt"] = b"H" * 4000
    write_lock(tmp_path / "root", hub, {"model.safetensors": True})
    models.locks._read.cache_clear()
    error = failure()  # a file that differs is not replaced without a word
    assert error.code is Exit.CHECKSUM
    assert "--repair" in error.mend
    hub.seen.clear()
    download.download(models.locks.load(NAME), folder(), report=lambda line: None, repair=True)
    assert {s.path.rpartition("/")[2] for s in hub.seen if s.server == "cdn"} == {"hift.pt"}
    assert models.resolve(NAME).revision == "c" * 40


def test_two_processes_do_not_download_into_one_folder(hub: LoopbackHub) -> None:
    import fcntl
    import threading

    folder().parent.mkdir(parents=True)
    told: list[str] = []
    with (folder().parent / f".{NAME}.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        thread = threading.Thread(target=models.resolve, args=(NAME,), kwargs={"report": told.append})
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
        assert not hub.seen
        assert any("waiting for another process" in line for line in told)
    thread.join(20)
    assert held() == set(SERVED)


def test_lfs_and_small_files_both_appear(hub: LoopbackHub) -> None:
    """The kit covers both ways a hub answers; without one of them half of the above would test nothing."""
    models.resolve(NAME)
    assert {s.path.removeprefix("/cdn/") for s in hub.seen if s.server == "cdn"} == LFS
    assert any(s.server == "hub" and s.method == "GET" and s.path.endswith("tokenizer_config.json") for s in hub.seen)
    assert os.environ["HF_ENDPOINT"] == hub.url
