"""Downloads that cannot succeed: one clear line, no password in it, and nothing left that looks like a model."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from models_kit import NAME, tiny_hub, use, write_lock

from fake_engine import FakeEngine
from firstword.cli import main
from firstword.engine import models
from firstword.engine.models import hub as hubs
from firstword.engine.preflight import Context
from firstword.engine.preflight.model import model_files
from firstword.errors import Exit, FirstwordError
from loopback_hub import LoopbackHub, serving


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    with serving(tiny_hub()) as hub:
        use(monkeypatch, tmp_path, hub)
        write_lock(tmp_path / "root", hub, {"model.safetensors": True, "token2wav/flow.pt": False})
        yield hub


def folder() -> Path:
    return models.models_folder() / NAME


def refused(capsys: pytest.CaptureFixture[str], code: Exit) -> str:
    assert main(["models", "download", NAME]) == code
    err = capsys.readouterr().err
    assert err.count("mend:") == 1
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("where", ["api", "model.safetensors"])
def test_nothing_is_left_of_a_download_that_brought_nothing(
    hub: LoopbackHub, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [where] if where == "api" else hub.files:
        hub.status[name] = 403
    refused(capsys, Exit.DOWNLOAD)
    assert not folder().exists()
    assert main(["models", "verify"]) == Exit.OK
    assert "nothing here yet" in capsys.readouterr().out


def test_a_folder_that_was_there_stays(hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    folder().mkdir(parents=True)
    (folder() / ".mine").write_text("")
    hub.status["api"] = 403
    refused(capsys, Exit.DOWNLOAD)
    assert (folder() / ".mine").exists()


def test_a_page_instead_of_an_answer(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeEngine() as portal:
        portal.page = b"<html>Please log in</html>"
        monkeypatch.setenv("HF_ENDPOINT", portal.url)
        err = refused(capsys, Exit.DOWNLOAD)
    assert "something else than a model hub" in err
    assert not folder().exists()


@pytest.mark.parametrize("address", ["http://[::1", "http://u:geheim@x:port", "file:///etc", "u:geheim@x", "http://"])
def test_an_address_that_is_none(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    err = refused(capsys, Exit.USAGE)
    assert "HF_ENDPOINT" in err
    assert "geheim" not in err


@pytest.mark.parametrize("fault", ["none", "refused", "other revision", "nobody", "corrupt"])
def test_a_password_in_the_address_is_never_shown(
    hub: LoopbackHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    fault: str,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url.replace("//", "//user:geheim@"))
    if fault == "refused":
        hub.status["api"] = 500
    elif fault == "other revision":
        hub.answers_for = "b" * 40
    elif fault == "nobody":
        monkeypatch.setenv("HF_ENDPOINT", "http://user:geheim@127.0.0.1:9")
    elif fault == "corrupt":
        hub.corrupt.add("token2wav/flow.pt")
    assert (main(["models", "download", NAME]) == Exit.OK) == (fault == "none")
    captured = capsys.readouterr()
    assert "geheim" not in captured.out + captured.err + caplog.text
    assert "127.0.0.1" in captured.err
    assert "geheim" not in hubs.shown()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_something_else_in_the_models_place(hub: LoopbackHub, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    folder().parent.mkdir(parents=True)
    folder().write_text("x") if kind == "file" else folder().symlink_to("gone")
    assert f"rm {folder()}" in refused(capsys, Exit.DOWNLOAD)
    (finding,) = model_files(Context("cpu", "step-audio-2", folder()))
    assert finding.mend == f"rm {folder()} && firstword models download {NAME}"
    assert main(["models", "verify", NAME]) == Exit.CHECKPOINT_INCOMPLETE


def test_a_home_that_is_a_file(hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    folder().parent.parent.mkdir(parents=True)
    folder().parent.write_text("x")
    assert "FIRSTWORD_HOME" in refused(capsys, Exit.DOWNLOAD)


def test_preflight_repairs_only_what_is_there(hub: LoopbackHub) -> None:
    context = Context("cpu", "step-audio-2", folder())
    (finding,) = model_files(context)
    assert finding.mend == f"firstword models download {NAME}"
    folder().mkdir(parents=True)
    assert {finding.mend for finding in model_files(context)} == {f"firstword models download {NAME}"}
    (folder() / "config.json").write_text("{}")
    assert {finding.mend for finding in model_files(context)} == {f"firstword models download {NAME} --repair"}


def test_printing_a_configuration_asks_no_hub(hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    described = models.describe(NAME)
    assert (described.path, described.revision) == (folder(), hub.revision)
    assert not hub.seen
    with pytest.raises(FirstwordError, match="no model"):
        models.describe("nothing-of-the-kind")
