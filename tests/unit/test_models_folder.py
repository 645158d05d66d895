"""A checkpoint folder that the user names: recognised, whole, and without unknown Python."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from models_kit import CODE, safetensors, tiny_files

import firstword
from firstword.cli import main
from firstword.engine import models
from firstword.engine.models import catalog, checkpoint, code, digests
from firstword.engine.preflight import Context
from firstword.engine.preflight import command as preflight_command
from firstword.engine.preflight.model import model_files
from firstword.errors import Exit, FirstwordError


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("FIRSTWORD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("FIRSTWORD_TRUST_CODE", raising=False)
    return tmp_path / "home"


def make(folder: Path, files: dict[str, bytes]) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def qwen3_tts(folder: Path, kind: str) -> Path:
    files = dict.fromkeys(checkpoint.REQUIRED["qwen3-tts"], b"{}")
    files["config.json"] = json.dumps({"model_type": "qwen3_tts", "tts_model_type": kind}).encode()
    files["model.safetensors"] = safetensors(100)
    files["speech_tokenizer/model.safetensors"] = safetensors(50)
    return make(folder, files)


def step_audio_2(folder: Path, **change: bytes) -> Path:
    files = {path: content for path, content in tiny_files().items() if path != "configuration_tiny.py"}
    return make(folder, files | change)


def refused(name: str | Path) -> FirstwordError:
    with pytest.raises(FirstwordError) as caught:
        models.resolve(name)
    assert "\n" not in caught.value.cause + caught.value.mend
    return caught.value


@pytest.mark.parametrize("kind", ["custom_voice", "voice_design", "base"])
def test_qwen3_tts_is_recognised(tmp_path: Path, kind: str) -> None:
    found = models.resolve(qwen3_tts(tmp_path / "mine", kind))
    assert found == models.Checkpoint("mine", "qwen3-tts", kind, (tmp_path / "mine").resolve(), None)


def test_step_audio_2_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step_audio_2(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert models.resolve("./mine").kind == "mini"
    assert models.resolve("mine").family == "step-audio-2"


@pytest.mark.parametrize(
    ("config", "exit_code", "words"),
    [
        (None, Exit.CHECKPOINT_INCOMPLETE, "holds no config.json"),
        ("{", Exit.CHECKPOINT_INCOMPLETE, "cannot read"),
        ("[]", Exit.CHECKPOINT_INCOMPLETE, "no JSON object"),
        ("{}", Exit.MODEL_UNKNOWN, "type None"),
        ('{"model_type": "llama"}', Exit.MODEL_UNKNOWN, "'llama'"),
        ('{"model_type": "qwen3_tts", "tts_model_type": "singer"}', Exit.MODEL_UNKNOWN, "'singer'"),
    ],
)
def test_a_folder_that_is_no_such_checkpoint(tmp_path: Path, config: str | None, exit_code: Exit, words: str) -> None:
    (tmp_path / "mine").mkdir()
    if config is not None:
        (tmp_path / "mine" / "config.json").write_text(config)
    error = refused(tmp_path / "mine")
    assert error.code is exit_code
    assert words in error.cause


def test_every_missing_file_is_named_at_once(tmp_path: Path) -> None:
    folder = step_audio_2(tmp_path / "mine")
    (folder / "token2wav/flow.pt").unlink()
    (folder / "model.safetensors").unlink()
    error = refused(folder)
    assert error.code is Exit.CHECKPOINT_INCOMPLETE
    assert "token2wav/flow.pt is missing" in error.cause
    assert "model.safetensors is missing" in error.cause


def test_recognition_alone_needs_no_token2wav(tmp_path: Path) -> None:
    folder = step_audio_2(tmp_path / "mine")
    shutil.rmtree(folder / "token2wav")
    assert models.resolve(folder, speaks=False).family == "step-audio-2"
    assert "token2wav/flow.pt is missing" in refused(folder).cause


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    folder = step_audio_2(tmp_path / "mine", **{"model.safetensors.index.json": json.dumps(index).encode()})
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    assert "model-00002-of-00002.safetensors is missing" in refused(folder).cause


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (safetensors(1000)[:-1], "it is cut short"),
        (safetensors(1000) + b"x", "it is too long"),
        (b"", "it has no safetensors header"),
        (b"PK\x03\x04" + b"\0" * 100, "it has no safetensors header"),
    ],
)
def test_cut_weights_are_seen_without_reading_them(tmp_path: Path, content: bytes, words: str) -> None:
    folder = step_audio_2(tmp_path / "mine", **{"model.safetensors": content})
    error = refused(folder)
    assert error.code is Exit.CHECKPOINT_INCOMPLETE
    assert words in error.cause


def test_python_that_nobody_vouches_for_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = step_audio_2(tmp_path / "mine", **{"configuration_tiny.py": CODE, "sub/.hidden.py": b"1\n"})
    sums = [digests.digest(folder / path).sha256 for path in ("configuration_tiny.py", "sub/.hidden.py")]
    error = refused(folder)
    assert error.code is Exit.CHECKSUM
    assert "configuration_tiny.py" in error.cause
    monkeypatch.setenv("FIRSTWORD_TRUST_CODE", sums[0])
    assert "sub/.hidden.py" in refused(folder).cause
    assert "configuration_tiny.py" not in refused(folder).cause
    monkeypatch.setenv("FIRSTWORD_TRUST_CODE", ",".join(sums).upper())
    assert models.resolve(folder).kind == "mini"
    (folder / "configuration_tiny.py").write_bytes(CODE + b"import os\n")
    assert refused(folder).code is Exit.CHECKSUM


def test_python_that_firstword_ships_is_known(tmp_path: Path) -> None:
    shipped = Path(firstword.__file__).parent / "synthetic" / "recipe.py"
    models.resolve(step_audio_2(tmp_path / "mine", **{"configuration_tiny.py": shipped.read_bytes()}))


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "preprocessor_config.json"])
def test_python_of_another_repository_is_refused(tmp_path: Path, file: str) -> None:
    data = {"model_type": "step_audio_2", "auto_map": {"AutoTokenizer": [None, "evil/repo--tokenizer.Tokenizer"]}}
    folder = step_audio_2(tmp_path / "mine", **{file: json.dumps(data).encode()})
    error = refused(folder)
    assert error.code is Exit.CHECKSUM
    assert "evil/repo--tokenizer.Tokenizer" in error.cause


def test_code_check_without_python_says_nothing(tmp_path: Path) -> None:
    code.require_known(step_audio_2(tmp_path / "mine"))


def test_an_unknown_name_lists_near_ones() -> None:
    error = refused("qwen3-tts-1.7b-costumvoice")
    assert error.code is Exit.MODEL_UNKNOWN
    assert "qwen3-tts-1.7b-customvoice" in error.mend
    assert refused("/nowhere/at/all").code is Exit.MODEL_UNKNOWN


def test_a_synthetic_checkpoint_that_is_not_made_names_the_command(home: Path) -> None:
    error = refused("step-audio-2-mini-synthetic")
    assert error.code is Exit.CHECKPOINT_INCOMPLETE
    folder = home / "checkpoints" / "step-audio-2-mini-synthetic"
    assert error.mend == f"firstword synthetic step-audio-2-mini-synthetic {folder}"


def test_a_synthetic_checkpoint_is_found(home: Path) -> None:
    folder = qwen3_tts(home / "checkpoints" / "qwen3-tts-base-synthetic", "base")
    found = models.resolve("qwen3-tts-base-synthetic")
    assert found == models.Checkpoint("qwen3-tts-base-synthetic", "qwen3-tts", "base", folder.resolve(), None)


def test_a_synthetic_checkpoint_of_another_kind_is_refused(home: Path) -> None:
    qwen3_tts(home / "checkpoints" / "qwen3-tts-base-synthetic", "custom_voice")
    assert "custom_voice" in refused("qwen3-tts-base-synthetic").cause


def test_a_name_comes_before_a_folder_called_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    qwen3_tts(tmp_path / "step-audio-2-mini-synthetic", "base")
    assert "not made yet" in refused("step-audio-2-mini-synthetic").cause
    assert models.resolve("./step-audio-2-mini-synthetic").kind == "base"


def test_the_catalogue_knows_what_synthetic_makes() -> None:
    from firstword.synthetic.command import NAMES

    assert list(catalog.SYNTHETIC) == list(NAMES)
    for name, (module, arguments, _) in NAMES.items():
        family, kind = catalog.SYNTHETIC[name]
        assert module.endswith(family.replace("-", "_"))
        assert arguments in ((), (kind,))


def made(folder: Path) -> Path:
    """Return a folder that says it is a synthetic checkpoint, with its checksums."""
    qwen3_tts(folder, "custom_voice")
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    sums = {name: digests.digest(path).sha256 for name, path in files.items()}
    mark = {"name": "qwen3-tts-customvoice-synthetic", "seed": 0, "recipe": "x", "files": sums}
    (folder / "firstword-synthetic.json").write_text(json.dumps(mark))
    return folder


def overwrite(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(-10, 2)
        opened.write(b"ABCD")


@pytest.mark.parametrize("name", ["model.safetensors", "speech_tokenizer/model.safetensors"])
def test_a_synthetic_checkpoint_that_changed_is_found_when_all_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = made(tmp_path / "made")
    assert main(["models", "verify", "--full", str(folder)]) == Exit.OK
    overwrite(folder / name)
    assert main(["models", "verify", str(folder)]) == Exit.OK  # quick: judged by headers
    capsys.readouterr()
    assert main(["models", "verify", "--full", str(folder)]) == Exit.CHECKSUM
    out = capsys.readouterr().out
    assert f"is not as it was made: {name} has another SHA-256" in out
    assert f"synthetic qwen3-tts-customvoice-synthetic {folder}" in out


def test_preflight_reads_a_synthetic_checkpoint_when_deep(tmp_path: Path) -> None:
    folder = made(tmp_path / "made")
    overwrite(folder / "model.safetensors")
    path, family, manifest = preflight_command.locate(str(folder))
    asked = Context("cpu", family, path, manifest=manifest, deep=True)
    causes = [finding.cause for finding in model_files(asked) if finding.code == Exit.CHECKSUM]
    assert causes == ["model.safetensors is not that of the checkpoint as it was made: its SHA-256 differs"]
    assert not [f for f in model_files(dataclasses.replace(asked, deep=False)) if f.code == Exit.CHECKSUM]


@pytest.mark.parametrize("files", [None, [], {}, {"a": 1}, {"../a": "0" * 64}, {"a": "x"}], ids=str)
def test_a_damaged_list_of_what_was_made(tmp_path: Path, files: object) -> None:
    folder = made(tmp_path / "made")
    mark = folder / "firstword-synthetic.json"
    mark.write_text(json.dumps({"files": files}) if files is not None else "{")
    with pytest.raises(FirstwordError, match=r"firstword-synthetic.json is damaged") as caught:
        models.resolve(folder, full=True)
    assert caught.value.code is Exit.CHECKSUM
