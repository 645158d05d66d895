"""What `firstword serve` settles before anything is downloaded, checked or started."""

import argparse
import importlib
import json
import sys
from pathlib import Path

import pytest

from firstword import paths
from firstword.cli import main
from firstword.engine import models
from firstword.engine.preflight.installed import Installed
from firstword.engine.serve import _kinds, _prepare, add_arguments, command
from firstword.errors import Exit

ENGINES = paths.root() / "configs/engines"
QWEN, STEP = "qwen3-tts-1.7b-customvoice", "step-audio-2-mini"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # a hub that is not there
    return tmp_path


def printed(capsys, *arguments):
    assert main(["serve", "--print-config", *arguments]) == Exit.OK
    return json.loads(capsys.readouterr().out)


def test_printing_the_configuration_of_a_published_model_downloads_nothing(capsys, home):
    told = printed(capsys, QWEN, "--shape", "1x24g")
    assert (told["model"], told["shape"], told["kind"]) == (QWEN, "1x24g", "custom_voice")
    assert len(told["revision"]) == 40
    assert not (home / "home").exists()


def test_a_config_of_ones_own(capsys, home):
    mine = home / "mine.yaml"
    mine.write_text((ENGINES / "qwen3-tts/cpu.yaml").read_text().replace("max_num_seqs: 8", "max_num_seqs: 3"))
    told = printed(capsys, QWEN, "--deploy-config", str(mine))
    assert told["shape"] == "mine"
    assert told["deploy_config"]["stages"][0]["max_num_seqs"] == 3


def test_one_config_or_the_other(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", QWEN, "--shape", "cpu", "--deploy-config", "x.yaml"])
    assert ended.value.code == Exit.USAGE
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"), [(b"\x7fELF\xff\xfe", "is no text"), (None, "is missing"), (b"", "empty")]
)
def test_a_config_that_cannot_be_read_is_refused_before_the_download(capsys, home, content, words):
    file = home / "own.yaml"
    if content is not None:
        file.write_bytes(content)
    assert main(["serve", QWEN, "--deploy-config", str(file)]) == Exit.CONFIG
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(("shape", "kinds"), [("asr-cpu", 1), ("speech-cpu", 3)])
def test_recognition_alone_is_asked_for_no_sound(home, shape, kinds):
    own = home / "own.yaml"
    own.write_text((ENGINES / f"step-audio-2/{shape}.yaml").read_text())
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    for config in (["--shape", shape], ["--deploy-config", str(own)]):
        assert len(_kinds(*_prepare(parser.parse_args([STEP, "--print-config", *config])))) == kinds


@pytest.mark.parametrize(
    "option",
    [
        "--port=0",
        "--port=99999",
        "--start-timeout=nan",
        "--stall-timeout=-1",
        "--answer-timeout=1e12",
        "--answer-timeout=0",
    ],
)
def test_numbers_that_make_no_sense_are_refused_first(capsys, option):
    assert main(["serve", "nothing-of-the-kind", option]) == Exit.USAGE
    told = capsys.readouterr()
    assert option.split("=")[0] in told.err
    assert not told.out


def test_the_engines_command_line_keeps_what_firstword_promises():
    """Each option is a promise (docs/, README.md): without it the engine still starts, and nobody is told."""
    words = command(Path("/models/a b; rm -rf $HOME"), Path("/configs/my cpu.yaml"), "a $(name)", "0.0.0.0", 8123)
    program, rest = words[:5], words[5:]
    assert program == [sys.executable, "-m", "firstword.engine.launch", "serve", "/models/a b; rm -rf $HOME"]
    flags = [rest.pop(rest.index(flag)) for flag in ("--omni", "--trust-remote-code")]
    assert len(flags) == 2
    assert dict(zip(rest[::2], rest[1::2], strict=True)) == {
        "--deploy-config": "/configs/my cpu.yaml",  # explicit: upstream's defaults for async chunks break
        "--served-model-name": "a $(name)",
        "--host": "0.0.0.0",
        "--port": "8123",
        "--allowed-media-domains": "invalid.",  # no host is called so: the engine fetches nothing for a client
        "--middleware": "firstword.engine.error_shape.ErrorShape",
    }


def test_the_middleware_named_on_the_command_line_exists():
    words = command(Path("m"), Path("c"), "n", "127.0.0.1", 1)
    module, _, name = words[words.index("--middleware") + 1].rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))


def test_a_shape_for_the_other_build_is_refused_before_the_download(capsys, home, monkeypatch):
    monkeypatch.setattr(Installed, "build", property(lambda _: "cpu"))
    monkeypatch.setattr(models, "resolve", lambda *_, **__: pytest.fail("it was asked for"))
    assert main(["serve", QWEN, "--shape", "1x80g"]) == Exit.CONFIG
    assert "this environment is for the CPU" in capsys.readouterr().err
