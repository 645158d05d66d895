"""The model check: what is missing, cut short, another revision's, or dangerous."""

import argparse
import dataclasses
import importlib.util
import json
import re
import time
from pathlib import Path

import pytest
from preflight_checkpoints import FLOW_YAML, onnx_file, qwen3_tts, safetensors, step_audio_2

from firstword import paths
from firstword.engine.models import catalog, weights
from firstword.engine.preflight import Context, FilePin, command
from firstword.engine.preflight.flow_yaml import ALLOWED, read_flow_yaml
from firstword.engine.preflight.model import model_files
from firstword.engine.preflight.model.files import token2wav_files
from firstword.errors import Exit

ENGINES = paths.root() / "configs/engines"


@pytest.fixture
def speech(tmp_path):
    model = step_audio_2(tmp_path / "model")
    return Context("cpu", "step-audio-2", model, ENGINES / "step-audio-2/speech-cpu.yaml")


@pytest.fixture
def asr(speech):
    return dataclasses.replace(speech, deploy_config=ENGINES / "step-audio-2/asr-cpu.yaml")


@pytest.fixture
def qwen(tmp_path):
    return Context("cpu", "qwen3-tts", qwen3_tts(tmp_path / "qwen"), ENGINES / "qwen3-tts/cpu.yaml")


def subjects(context: Context) -> dict[str, Exit]:
    return {finding.subject: finding.code for finding in model_files(context)}


def cut(path: Path, by: int = 1) -> None:
    path.write_bytes(path.read_bytes()[:-by])


def test_whole_checkpoints_raise_no_alarm(speech, asr, qwen):
    assert [list(model_files(context)) for context in (speech, asr, qwen)] == [[], [], []]


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "tokenizer.json", "model.safetensors"])
def test_files_that_every_form_of_step_audio_2_reads(speech, asr, name):
    (speech.model_dir / name).unlink()
    assert subjects(speech) == {name: Exit.CHECKPOINT_INCOMPLETE}
    assert subjects(dataclasses.replace(asr)) == {name: Exit.CHECKPOINT_INCOMPLETE}


@pytest.mark.parametrize("name", token2wav_files())
def test_token2wav_files_are_read_at_the_first_speech_request_and_not_for_recognition(speech, asr, name):
    (speech.model_dir / name).unlink()
    (finding,) = model_files(speech)
    assert finding.subject == name
    assert "/health answers 200" in finding.later
    assert subjects(asr) == {}


def test_the_names_of_token2wavs_files_are_those_that_the_installed_module_opens():
    spec = importlib.util.find_spec("vllm_omni")
    source = Path(spec.origin).parent / "model_executor/models/step_audio2/step_audio2_token2wav.py"
    opened = re.findall(r'f"\{self\.model_path\}/([\w.]+)"', source.read_text())
    assert {f"token2wav/{name}" for name in opened} == set(token2wav_files())


@pytest.mark.parametrize("name", ["speech_tokenizer/model.safetensors", "merges.txt", "vocab.json"])
def test_files_of_qwen3_tts(qwen, name):
    (qwen.model_dir / name).unlink()
    (finding,) = model_files(qwen)
    assert name in finding.cause


def test_an_empty_file_is_a_missing_file(speech):
    (speech.model_dir / "token2wav/hift.pt").write_bytes(b"")
    (finding,) = model_files(speech)
    assert finding.cause == "token2wav/hift.pt is empty: token2wav reads it"


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "token2wav/flow.pt",
        "token2wav/hift.pt",
        "token2wav/campplus.onnx",
        "token2wav/speech_tokenizer_v2_25hz.onnx",
        "token2wav/weights.data",
    ],
)
@pytest.mark.parametrize("by", [1, 9])
def test_a_file_that_is_cut_short(speech, name, by):
    cut(speech.model_dir / name, by)
    assert subjects(speech) == {name: Exit.CHECKPOINT_INCOMPLETE}


def test_a_missing_file_of_weights_beside_an_onnx_file(speech):
    (speech.model_dir / "token2wav/weights.data").unlink()
    (finding,) = model_files(speech)
    assert "speech_tokenizer_v2_25hz.onnx keeps its weights there" in finding.cause


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 40, b"\x08\x00\x00\x00\x00\x00\x00\x00not json", b"<html>404</html>"]
)
def test_weights_that_are_something_else(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    assert weights.safetensors_fault(path) is not None
    assert weights.torch_fault(path) is not None
    assert weights.onnx_fault(path) is not None


def test_bytes_after_the_last_tensor(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors(path)
    assert weights.safetensors_fault(path) is None
    path.write_bytes(path.read_bytes() + b"\0")
    assert "too long" in weights.safetensors_fault(path)


@pytest.fixture
def sharded(speech):
    model = speech.model_dir
    (model / "model.safetensors").unlink()
    safetensors(model / "model-00001-of-00002.safetensors", ("a", "b"))
    safetensors(model / "model-00002-of-00002.safetensors", ("c",))
    places = {"a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors"}
    places["c"] = "model-00002-of-00002.safetensors"
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return speech


def test_shards(sharded):
    assert subjects(sharded) == {}
    cut(sharded.model_dir / "model-00002-of-00002.safetensors")
    assert subjects(sharded) == {"model-00002-of-00002.safetensors": Exit.CHECKPOINT_INCOMPLETE}
    (sharded.model_dir / "model-00002-of-00002.safetensors").unlink()
    assert subjects(sharded) == {"model-00002-of-00002.safetensors": Exit.CHECKPOINT_INCOMPLETE}


def test_a_shard_of_another_checkpoint(sharded):
    safetensors(sharded.model_dir / "model-00001-of-00002.safetensors", ("a", "x"))
    (finding,) = model_files(sharded)
    assert "does not hold b" in finding.cause


@pytest.mark.parametrize("text", ["", "{", "[]", '{"weight_map": 3}'])
def test_an_index_that_is_none(sharded, text):
    (sharded.model_dir / "model.safetensors.index.json").write_text(text)
    assert "model.safetensors" in ";".join(subjects(sharded))


def test_several_faults_are_all_named(speech):
    (speech.model_dir / "token2wav/flow.pt").unlink()
    (speech.model_dir / "tokenizer.json").unlink()
    cut(speech.model_dir / "model.safetensors")
    assert set(subjects(speech)) == {"token2wav/flow.pt", "tokenizer.json", "model.safetensors"}


def test_a_folder_that_is_not_there(speech):
    gone = dataclasses.replace(speech, model_dir=speech.model_dir / "nowhere")
    (finding,) = model_files(gone)
    assert "there is no folder" in finding.cause


def test_pins(speech):
    names = [path for path in speech.model_dir.rglob("*") if path.is_file()]
    pins = {path.relative_to(speech.model_dir).as_posix(): FilePin(path.stat().st_size, None) for path in names}
    assert subjects(dataclasses.replace(speech, manifest=pins)) == {}
    pins["assets/default_female.wav"] = FilePin(10, None)
    pins["tokenizer.json"] = FilePin(3, None)
    found = subjects(dataclasses.replace(speech, manifest=pins))
    assert found == {"assets/default_female.wav": Exit.CHECKPOINT_INCOMPLETE, "tokenizer.json": Exit.CHECKSUM}


def test_checksums_are_read_in_deep_mode(speech):
    pins = {"tokenizer.json": FilePin(2, "0" * 64)}
    assert subjects(dataclasses.replace(speech, manifest=pins)) == {}
    assert subjects(dataclasses.replace(speech, manifest=pins, deep=True)) == {"tokenizer.json": Exit.CHECKSUM}


def test_python_that_nobody_vouches_for(speech):
    (speech.model_dir / "configuration_step_audio_2.py").write_text("print('hello')\n")
    assert subjects(speech) == {"remote code": Exit.CHECKSUM}


def test_remote_code_that_the_configuration_names_must_be_there(speech):
    config = json.loads((speech.model_dir / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "configuration_x.Config", "AutoTokenizer": ["tokenization_y.Slow", None]}
    (speech.model_dir / "config.json").write_text(json.dumps(config))
    assert set(subjects(speech)) == {"configuration_x.py", "tokenization_y.py"}


def test_what_flow_yaml_names(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW_YAML)
    assert set(read_flow_yaml(path).classes) == set(ALLOWED)
    assert read_flow_yaml(path).refused == ()


@pytest.mark.parametrize(
    "text",
    [
        "a: !new:os.system\n  command: x\n",
        "a: !apply:os.system [x]\n",
        "a: !name:subprocess.run\n",
        "a: !module:os\n",
        "a: !applyref:builtins.exec\n  code: x\n",
        "a: !include:/etc/passwd\n",
        "a: !!python/object/apply:os.system [x]\n",
        "%TAG !x! tag:yaml.org,2002:python/\n---\na: !x!object/apply:os.system [x]\n",
        "a: (!!python/object/apply:os.system [x])\n",
        'a: "(!!python/object/apply:os.system [x])"\n',
        "a: !tuple (1, 2)\n",
        "b: 1\na: !ref <b>\n",
        "a: !new:cosyvoice2.flow.flow.CausalMaskedDiffWithXvecs\n",
        "? !new:os.getcwd\n: 1\n",
        "a: [[{b: !new:os.getcwd }]]\n",
    ],
)
def test_what_flow_yaml_may_not_do(speech, text):
    (speech.model_dir / "token2wav/flow.yaml").write_text(FLOW_YAML + text if "%TAG" not in text else text)
    assert subjects(speech) == {"token2wav/flow.yaml": Exit.CHECKSUM}


def test_a_text_in_parentheses_really_runs():
    """Why such texts are refused, though they have no tag."""
    from hyperpyyaml import load_hyperpyyaml

    assert load_hyperpyyaml("a: (!!python/object/apply:os.getcwd [])") == {"a": (str(Path.cwd()),)}


@pytest.mark.parametrize("text", ["flow: [", "\x00", "flow: {}\n"])
def test_a_flow_yaml_that_is_none(speech, text):
    (speech.model_dir / "token2wav/flow.yaml").write_text(text)
    assert subjects(speech) == {"token2wav/flow.yaml": Exit.CHECKPOINT_INCOMPLETE}


def test_large_onnx_fields(tmp_path):
    path = tmp_path / "x.onnx"
    onnx_file(path, {f"part{at}": 10**9 for at in range(3)})
    assert weights.onnx_fault(path) is None
    assert weights.onnx_data_files(path) == {"part0": 10**9, "part1": 10**9, "part2": 10**9}


def test_a_published_model_may_be_named_as_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_HOME", str(tmp_path))
    for entry in (catalog.get(name) for name in catalog.names()):
        by_name = command.locate(entry.name)
        if entry.lock is not None:
            assert command.locate(entry.lock.repository) == by_name
        assert by_name[0].name == entry.name


def test_a_flow_yaml_that_is_nested_without_end(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text("[" * 100_000)
    started = time.monotonic()
    assert "nested deeper than" in read_flow_yaml(path).error
    assert time.monotonic() - started < 5  # the whole file takes PyYAML minutes


def test_a_config_of_ones_own_is_for_what_the_environment_is_for(tmp_path, monkeypatch):
    mine = tmp_path / "mine.yaml"
    mine.write_text((ENGINES / "qwen3-tts/cpu.yaml").read_text())
    model = qwen3_tts(tmp_path / "model")
    for built_for in ("cpu", "cuda"):
        monkeypatch.setattr(command, "built_for", lambda built_for=built_for: built_for)
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        context = command.context_of(parser.parse_args([str(model), "--deploy-config", str(mine)]))
        assert (context.device, context.config.device) == (built_for, built_for)
