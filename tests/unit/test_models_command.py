"""``firstword models``: what it prints and how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from models_kit import NAME, tiny_hub, use, write_lock

from firstword.cli import main
from firstword.engine import models
from firstword.engine.models import progress
from firstword.errors import Exit
from loopback_hub import LoopbackHub, serving


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    with serving(tiny_hub()) as hub:
        use(monkeypatch, tmp_path, hub)
        write_lock(tmp_path / "root", hub, {"model.safetensors": True, "token2wav/flow.pt": False})
        yield hub


def test_list_before_and_after(hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list", "--json"]) == 0
    (row, *made) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["here"], row["licence"]) == (NAME, "no", "Apache-2.0")
    assert [r["size"] for r in made] == ["made here"] * 4
    models.resolve(NAME)
    assert main(["models", "list"]) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith(NAME)]
    assert line.endswith("yes")
    (models.models_folder() / NAME / "model.safetensors").unlink()
    main(["models", "list"])
    assert "1 of 2 files" in capsys.readouterr().out
    assert "firstword synthetic NAME" in out


def test_download_prints_the_folder(hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "download", NAME]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(models.models_folder() / NAME)
    assert "downloading 9 files" in err
    assert main(["models", "download", NAME, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "path": str(models.models_folder() / NAME)}


def test_download_of_a_synthetic_name_names_the_command(hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "download", "qwen3-tts-base-synthetic"]) == Exit.USAGE
    assert "firstword synthetic qwen3-tts-base-synthetic" in capsys.readouterr().err


def test_download_offline_is_refused(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["models", "download", NAME]) == Exit.DOWNLOAD
    assert "env -u HF_HUB_OFFLINE" in capsys.readouterr().err
    assert hub.seen == []


def test_download_repairs_only_when_told_to(hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    folder = models.resolve(NAME).path
    (folder / "token2wav/flow.pt").write_bytes(b"x" * 5000)
    assert main(["models", "download", NAME]) == Exit.CHECKSUM
    assert "--repair" in capsys.readouterr().err
    assert main(["models", "download", NAME, "--repair"]) == 0
    assert (folder / "token2wav/flow.pt").read_bytes() == hub.files["token2wav/flow.pt"]


def test_verify_says_what_is_wrong_and_ends_with_its_code(hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "verify"]) == 0
    assert "nothing here yet" in capsys.readouterr().out
    folder = models.resolve(NAME).path
    hub.seen.clear()
    assert main(["models", "verify"]) == 0
    assert capsys.readouterr().out.startswith(f"{NAME}: ok (")
    (folder / "configuration_tiny.py").write_bytes(b"import os\n")
    assert main(["models", "verify", NAME, "--full"]) == Exit.CHECKSUM
    out = capsys.readouterr().out
    assert "configuration_tiny.py" in out
    assert f"mend: firstword models download {NAME} --repair" in out
    assert main(["models", "verify", "--json"]) == Exit.CHECKSUM
    (result,) = json.loads(capsys.readouterr().out)
    assert (result["name"], result["ok"], result["kind"]) == (NAME, False, "checksum")
    assert hub.seen == []


def test_verify_takes_folders(hub: LoopbackHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["models", "verify", str(tmp_path / "empty")]) == Exit.CHECKPOINT_INCOMPLETE
    assert "holds no config.json" in capsys.readouterr().out


def test_progress_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    told: list[str] = []
    bar = progress.Progress("downloading tiny", 10_000_000_000, 2_000_000_000, told.append)
    for _ in range(6):
        bar.add(500_000_000)
    assert 1 <= len(told) < 6
    assert "of 10.00 GB" in told[0]
    assert "MB/s" in told[0]
    assert "min left" in told[0]


def test_a_stopped_transfer_ends_at_its_next_byte() -> None:
    bar = progress.Progress("x", 10, 0, lambda line: None)
    with bar.bar_class(total=10, desc="x") as inner:
        inner.update(3)
        bar.stop()
        with pytest.raises(progress.Stopped):
            inner.update(3)
