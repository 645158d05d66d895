"""Checkpoints that cannot be read: each ends in findings, and nothing hangs or raises."""

import dataclasses
import json
import os
import struct

import pytest
from no_override import no_override
from preflight_checkpoints import onnx_file, qwen3_tts, step_audio_2

from firstword import cli, documents, paths
from firstword.engine import models
from firstword.engine.models import checkpoint, code
from firstword.engine.preflight import Context
from firstword.engine.preflight.finding import told
from firstword.engine.preflight.flow_yaml import read_flow_yaml
from firstword.engine.preflight.model import model_files
from firstword.errors import Exit, FirstwordError

ENGINES = paths.root() / "configs/engines"
DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000
INDEX = "model.safetensors.index.json"


@pytest.fixture
def qwen(tmp_path):
    return Context("cpu", "qwen3-tts", qwen3_tts(tmp_path / "qwen"), ENGINES / "qwen3-tts/cpu.yaml")


@pytest.fixture
def step(tmp_path):
    model = step_audio_2(tmp_path / "step")
    return Context("cpu", "step-audio-2", model, ENGINES / "step-audio-2/speech-cpu.yaml")


def only(context, name):
    (finding,) = model_files(dataclasses.replace(context))
    assert (finding.subject, finding.code) == (name, Exit.CHECKPOINT_INCOMPLETE)
    assert "\n" not in finding.cause
    return finding.cause


@pytest.mark.parametrize("text", ["{", "[1]", "\xff", DEEP], ids=["cut", "list", "latin-1", "deep"])
@pytest.mark.parametrize(
    "name",
    ["vocab.json", "tokenizer_config.json", "preprocessor_config.json", "config.json", "speech_tokenizer/config.json"],
)
def test_a_file_that_is_no_json_object(qwen, name, text):
    (qwen.model_dir / name).write_bytes(text.encode("latin-1"))
    assert f"{name} is no JSON object" in only(qwen, name)


def test_tokenizer_json(step):
    (step.model_dir / "tokenizer.json").write_text("{")
    assert "tokenizer.json is no JSON object" in only(step, "tokenizer.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_hidden_layers", "abc"),
        ("num_hidden_layers", float("inf")),
        ("num_attention_heads", 0),
        ("num_key_value_heads", -1),
        ("hidden_size", None),
        ("head_dim", True),
        ("vocab_size", [1]),
    ],
)
def test_a_configuration_without_the_models_sizes(qwen, field, value):
    file = qwen.model_dir / "config.json"
    config = json.loads(file.read_text())
    config["talker_config"][field] = value
    file.write_text(json.dumps(config))
    assert field in only(qwen, "config.json")


def test_a_size_that_the_configuration_class_knows_may_be_left_out(step):
    file = step.model_dir / "config.json"
    config = json.loads(file.read_text())
    del config["text_config"]["num_attention_heads"]
    file.write_text(json.dumps(config))
    assert list(model_files(step)) == []


@pytest.mark.parametrize("words", ["is a link to nothing", "is a folder"])
def test_one_cause_is_said_once(qwen, words):
    (qwen.model_dir / "vocab.json").unlink()
    MAKE[words](qwen.model_dir / "vocab.json")
    assert only(qwen, "vocab.json") == f"vocab.json {words}: the tokenizer reads it"
    (qwen.model_dir / "model.safetensors").unlink()
    MAKE[words](qwen.model_dir / "model.safetensors")
    assert f"model.safetensors {words}" in checkpoint.faults(qwen.model_dir, "qwen3-tts")


@pytest.mark.parametrize("talker", [None, 3, [], {}])
def test_a_configuration_without_a_language_model(qwen, talker):
    file = qwen.model_dir / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"talker_config": talker}))
    assert "does not describe a qwen3-tts model" in only(qwen, "config.json")


@pytest.mark.parametrize(
    "places",
    [[], {}, None, 3, {"a": 1}, {"a": None}, {"a": "/etc/passwd"}, {"a": "../x.safetensors"}, {"a": "config.json"}],
    ids=str,
)
def test_an_index_that_is_none(qwen, places):
    (qwen.model_dir / INDEX).write_text(json.dumps({"weight_map": places}))
    assert f"{INDEX} is no index" in only(qwen, INDEX)
    (fault,) = checkpoint.faults(qwen.model_dir, "qwen3-tts")
    assert f"{INDEX} is no index" in fault


def test_a_shard_in_a_folder_of_its_own_is_judged(qwen):
    (qwen.model_dir / INDEX).write_text('{"weight_map": {"a": "parts/x.safetensors"}}')
    (qwen.model_dir / "parts").mkdir()
    (qwen.model_dir / "parts/x.safetensors").write_bytes(b"\x01")
    assert "no safetensors header" in only(qwen, "parts/x.safetensors")


def test_a_header_that_is_nested_too_deep(qwen):
    (qwen.model_dir / "model.safetensors").write_bytes(struct.pack("<Q", len(DEEP)) + DEEP.encode())
    assert "nested too deep" in only(qwen, "model.safetensors")


def test_an_onnx_file_whose_inner_fields_are_none(step):
    onnx_file(step.model_dir / "token2wav/campplus.onnx", {"weights.data": 64})
    file = step.model_dir / "token2wav/campplus.onnx"
    file.write_bytes(file.read_bytes().replace(b"\x02\x0264", b"\x02\x02xx").replace(b"\x12\x0264", b"\x12\x02xx"))
    assert "no ONNX file" in only(step, "token2wav/campplus.onnx")


MAKE = {
    "is a link to nothing": lambda path: path.symlink_to("gone"),
    "is a folder": lambda path: path.mkdir(),
    "is no regular file": os.mkfifo,
}


@pytest.mark.parametrize("words", MAKE)
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "speech_tokenizer/model.safetensors"])
def test_what_is_there_instead_of_a_file(qwen, name, words):
    (qwen.model_dir / name).unlink()
    MAKE[words](qwen.model_dir / name)
    (finding,) = model_files(qwen)
    assert finding.subject == name
    assert words in finding.cause
    with pytest.raises(FirstwordError):
        models.resolve(qwen.model_dir)


@pytest.mark.parametrize("words", MAKE)
@pytest.mark.parametrize("name", ["more.safetensors", "more.py", "more.json", "generation_config.json"])
def test_what_is_there_beside_the_files(qwen, name, words):
    MAKE[words](qwen.model_dir / name)
    found = list(model_files(qwen))
    harmless = name == "more.json" or (name == "more.py" and words == "is a folder")
    assert [words in finding.cause for finding in found] == ([] if harmless else [True])


def test_flow_yaml_that_cannot_be_read(step):
    file = step.model_dir / "token2wav/flow.yaml"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(OSError, match="is no regular file"):
        read_flow_yaml(file)


def test_python_elsewhere_is_seen_beside_damaged_json(step):
    (step.model_dir / "a.json").write_text(DEEP)
    (step.model_dir / "b.json").write_text('{"auto_map": {"AutoTokenizer": "evil/repo--x.Y"}}')
    with pytest.raises(FirstwordError, match="evil/repo--x"):
        code.require_known(step.model_dir)


def test_states(tmp_path):
    file = tmp_path / "x"
    assert documents.state(file) == "is missing"
    file.write_bytes(b"")
    assert documents.state(file) == "is empty"
    file.write_bytes(b"1")
    assert documents.state(file) is None
    assert documents.read_json(file) == 1


@pytest.mark.parametrize(
    "name", ["model.safetensors", "vocab.json", "speech_tokenizer", "speech_tokenizer/config.json"]
)
def test_what_may_not_be_read_is_named_with_who_may_not(qwen, name):
    (qwen.model_dir / name).chmod(0)
    with no_override():
        found = list(model_files(qwen))
    (qwen.model_dir / name).chmod(0o700)
    assert len(found) == (3 if name == "speech_tokenizer" else 1)
    for finding in found:
        assert finding.code == Exit.CHECKPOINT_INCOMPLETE
        assert f"{finding.subject} cannot be read (Permission denied)" in finding.cause
        assert finding.mend == f"let the user with id {os.geteuid()} read {qwen.model_dir / finding.subject}"


@pytest.mark.parametrize("name", ["token2wav/flow.pt", "token2wav/campplus.onnx", "token2wav/flow.yaml", "more.py"])
def test_what_may_not_be_read_of_a_model_that_listens(step, name):
    (step.model_dir / name).touch()
    (step.model_dir / name).chmod(0)
    with no_override():
        (finding,) = model_files(step)
        assert "cannot be read (Permission denied)" in finding.cause
        with pytest.raises(FirstwordError, match="cannot be read"):
            models.resolve(step.model_dir)


@pytest.mark.parametrize("words", [["preflight"], ["models", "verify"], ["models", "verify", "--full"]], ids=" ".join)
def test_a_checkpoint_in_a_folder_that_is_closed(capsys, tmp_path, qwen, words):
    tmp_path.chmod(0)
    with no_override():
        code = cli.main([*words, str(qwen.model_dir)])
    tmp_path.chmod(0o700)
    assert code == Exit.NO_ACCESS
    assert f"cannot use {qwen.model_dir}: Permission denied" in "".join(capsys.readouterr())


def test_a_check_that_may_not_look_is_a_finding_and_a_defect_is_none():
    def check(error):
        yield "before"
        raise error

    before, refusal = told("model", check(PermissionError(13, "Permission denied", "/x")))
    assert (before, refusal.subject, refusal.code) == ("before", "/x", Exit.NO_ACCESS)
    with pytest.raises(OSError, match="odd"):
        list(told("model", check(OSError("odd"))))
