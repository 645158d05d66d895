"""Deploy configs: loading, what is refused, and how it is said."""

import json
import re
import time
from pathlib import Path

import pytest
import yaml

from firstword import paths
from firstword.engine import config as configs
from firstword.engine.config import schema, settings_yaml
from firstword.errors import Exit, FirstwordError

SHIPPED = {
    "qwen3-tts": ["1x24g", "1x80g", "2gpu", "cpu"],
    "step-audio-2": ["asr-1x24g", "asr-1x80g", "asr-cpu", "speech-1x80g", "speech-2gpu", "speech-cpu"],
}
ALL = [(family, shape) for family, shapes in SHIPPED.items() for shape in shapes]


def edited(tmp_path: Path, family: str, shape: str, edit) -> Path:
    """Write a shipped config with one change, under the same name."""
    settings = configs.load(family, shape).resolved()
    edit(settings)
    path = tmp_path / f"{shape}.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def refused(path: Path, family: str) -> FirstwordError:
    with pytest.raises(FirstwordError) as caught:
        configs.load_file(path, family)
    assert caught.value.code is Exit.CONFIG
    return caught.value


@pytest.mark.parametrize("family", SHIPPED)
def test_shapes_are_the_shipped_files(family: str) -> None:
    assert configs.shapes(family) == SHIPPED[family]


@pytest.mark.parametrize(("family", "shape"), ALL)
def test_every_shipped_config_loads(family: str, shape: str) -> None:
    config = configs.load(family, shape)
    assert (config.family, config.shape) == (family, shape)
    assert config.device == ("cpu" if shape.endswith("cpu") else "cuda")
    assert config.gpus == {"cpu": 0, "1x80g": 1, "1x24g": 1, "2gpu": 2}[shape.rpartition("-")[2]]
    assert config.speaks == (not shape.startswith("asr"))
    assert len(config.stages) == (1 if shape.startswith("asr") else 2)
    assert config.resolved() == yaml.safe_load(config.path.read_text())


def test_sha256_follows_the_settings_and_not_the_comments(tmp_path: Path) -> None:
    shipped = configs.load("qwen3-tts", "cpu")
    same = configs.load_file(edited(tmp_path, "qwen3-tts", "cpu", lambda s: None), "qwen3-tts")
    assert same.sha256 == shipped.sha256
    other = edited(tmp_path, "qwen3-tts", "cpu", lambda s: s["stages"][0].update(max_num_seqs=7))
    assert configs.load_file(other, "qwen3-tts").sha256 != shipped.sha256


def test_resolved_is_a_copy() -> None:
    config = configs.load("qwen3-tts", "cpu")
    config.resolved()["stages"].clear()
    assert len(config.resolved()["stages"]) == 2
    assert json.loads(json.dumps(config.resolved())) == config.resolved()


def test_unknown_shape_names_the_ones_there_are() -> None:
    with pytest.raises(FirstwordError) as caught:
        configs.load("step-audio-2", "1x80g")
    assert caught.value.code is Exit.CONFIG
    assert "asr-1x24g" in caught.value.mend
    assert "speech-1x80g" in caught.value.mend


def test_shape_cannot_leave_the_folder() -> None:
    with pytest.raises(FirstwordError):
        configs.load("qwen3-tts", "../step-audio-2/asr-cpu")


def test_unknown_family_names_the_ones_there_are() -> None:
    with pytest.raises(FirstwordError) as caught:
        configs.load("qwen4-tts", "cpu")
    assert "qwen3-tts" in caught.value.mend


@pytest.mark.parametrize(
    ("edit", "key", "near", "place"),
    [
        (lambda s: s.update(async_chunks=True), "async_chunks", "async_chunk", None),
        (lambda s: s["stages"][0].update(max_num_seq=4), "max_num_seq", "max_num_seqs", "stages[0]"),
        (lambda s: s["stages"][1].update(kv_cache_bytes=4), "kv_cache_bytes", "kv_cache_memory_bytes", "stages[1]"),
        (
            lambda s: s["stages"][0]["default_sampling_params"].update(max_token=4),
            "max_token",
            "max_tokens",
            "stages[0].default_sampling_params",
        ),
        (
            lambda s: s["connectors"]["connector_of_shared_memory"]["extra"].update(codec_chunk_frame=4),
            "codec_chunk_frame",
            "codec_chunk_frames",
            "connectors.connector_of_shared_memory.extra",
        ),
    ],
)
def test_unknown_key_names_the_nearest(tmp_path: Path, edit, key: str, near: str, place: str | None) -> None:
    cause = refused(edited(tmp_path, "qwen3-tts", "cpu", edit), "qwen3-tts").cause
    assert f"unknown key {key!r}" in cause
    assert repr(near) in cause
    assert place is None or f"in {place}" in cause


def test_upstream_keys_that_nothing_reads_are_unknown(tmp_path: Path) -> None:
    def edit(settings) -> None:
        settings["connectors"]["connector_of_shared_memory"]["extra"]["connector_get_sleep_s"] = 0.01

    assert "'connector_get_sleep_s'" in refused(edited(tmp_path, "qwen3-tts", "cpu", edit), "qwen3-tts").cause


def test_every_problem_is_named_at_once(tmp_path: Path) -> None:
    def edit(settings) -> None:
        settings["stages"][0]["max_num_seq"] = 4
        settings["stages"][1]["max_model_len"] = "long"

    cause = refused(edited(tmp_path, "qwen3-tts", "cpu", edit), "qwen3-tts").cause
    assert "max_num_seq" in cause
    assert "stages[1].max_model_len" in cause


@pytest.mark.parametrize(
    ("family", "shape", "edit", "words"),
    [
        ("qwen3-tts", "cpu", lambda s: s["stages"][0]["default_sampling_params"].pop("min_tokens"), "#4962"),
        (
            "qwen3-tts",
            "cpu",
            lambda s: s["stages"][0]["default_sampling_params"].update(max_tokens=4096),
            "4096 frames",
        ),
        ("qwen3-tts", "cpu", lambda s: s["stages"].pop(), "two stages"),
        ("qwen3-tts", "cpu", lambda s: s["stages"][0].pop("kv_cache_memory_bytes"), "'kv_cache_memory_bytes'"),
        ("qwen3-tts", "cpu", lambda s: s["connectors"].clear(), "connectors: does not define"),
        ("step-audio-2", "speech-1x80g", lambda s: s["stages"][0].pop("enforce_eager"), "_process_audio_input"),
        ("step-audio-2", "speech-1x80g", lambda s: s["stages"][0].update(enforce_eager=False), "CUDA graph"),
        ("step-audio-2", "asr-1x80g", lambda s: s["stages"][0].update(enforce_eager=False), "CUDA graph"),
        ("step-audio-2", "speech-cpu", lambda s: s.update(async_chunk=False), "sequential form"),
        ("step-audio-2", "speech-cpu", lambda s: s["stages"][1].update(max_num_seqs=74), "in two halves"),
        ("step-audio-2", "speech-cpu", lambda s: s["stages"].pop(), "step_audio_2_asr"),
        ("step-audio-2", "asr-cpu", lambda s: s.pop("pipeline"), "step_audio_2_asr"),
        ("step-audio-2", "asr-cpu", lambda s: s["stages"][0].update(stage_id=1), "count up from 0"),
        ("step-audio-2", "speech-2gpu", lambda s: s["stages"][0].update(tensor_parallel_size=2), "1 device(s)"),
        ("step-audio-2", "asr-cpu", lambda s: s["stages"][0].update(devices="gpu0"), "stages[0].devices"),
    ],
)
def test_what_breaks_the_model_is_refused(tmp_path: Path, family: str, shape: str, edit, words: str) -> None:
    assert words in refused(edited(tmp_path, family, shape, edit), family).cause


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("async_chunk: true\nstages: [\n", "not YAML at line"),
        ("async_chunk: true\nasync_chunk: false\n", "'async_chunk' stands twice"),
        ("", "is empty"),
        ("- a\n", "the file"),
        ("!!python/object/apply:os.system ['true']\n", "no setting at line 1"),
    ],
)
def test_a_file_that_is_no_config(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "cpu.yaml"
    path.write_text(text)
    cause = refused(path, "qwen3-tts").cause
    assert words in cause
    assert "\n" not in cause


def test_a_missing_file(tmp_path: Path) -> None:
    assert "is missing" in refused(tmp_path / "cpu.yaml", "qwen3-tts").cause


def test_the_schema_is_valid_json_schema() -> None:
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(schema.schema())


@pytest.mark.parametrize(("family", "shape"), ALL)
def test_gpu_figures_say_that_they_are_computed(family: str, shape: str) -> None:
    config = configs.load(family, shape)
    text = config.path.read_text()
    assert ("computed, not run" in text) == (config.device == "cuda")
    if family == "step-audio-2" and config.speaks:
        assert "sequential form" in text


@pytest.mark.parametrize(("family", "shape"), [pair for pair in ALL if not pair[1].endswith("cpu")])
def test_figures_in_comments_follow_from_the_settings(family: str, shape: str) -> None:
    """ "N GiB hold M tokens" agrees with the bytes below it and with the published model's size of a token."""
    per_token = {"qwen3-tts": 28 * 8 * 128 * 4, "step-audio-2": 28 * 4 * 128 * 4}[family]
    config = configs.load(family, shape)
    (told,) = re.findall(r"# (\d+) GiB hold (\d+) tokens", config.path.read_text())
    size = config.stages[0].kv_cache_bytes
    assert (int(told[0]) * 1024**3, int(told[1])) == (size, size // per_token)


def test_configs_live_where_paths_says() -> None:
    assert configs.load("qwen3-tts", "cpu").path.is_relative_to(paths.root() / "configs")


BASE = "base: &base {a: 1, b: 2}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("? [a, b]\n: 1\n", "a key that is no text"),
        ("? {a: b}\n: 1\n", "a key that is no text"),
        ("1: a\n", "the key 1 in the file is no text"),
        ("on: a\n", "the key True in the file is no text"),
        ("a: 2024-99-99\n", "'2024-99-99' is no timestamp"),
        ("a: {b: [2024-01-01]}\n", "a.b[0] is a date"),
        ("a: !!binary aGk=\n", "a is a bytes"),
        ("a: !!set {b}\n", "a is a set"),
        ("a: !!bool maybe\n", "'maybe' is no bool"),
        ("a: !!int ''\n", "'' is no int"),
        ("a: !!timestamp noon\n", "'noon' is no timestamp"),
        ("[" * 3000, "nested deeper than 50 levels"),
        ("{a: " * 3000, "nested deeper than 50 levels"),
        (f"a: {'1' * 5000}\n", "is no int"),
        (f"a: 0x{'f' * 9000}\n", "a is a number of more than 63 bits"),
        ("a: [0, .nan]\n", "a[1] is nan"),
        ("a: .inf\n", "a is inf"),
        ("a: &a [*a]\n", "recursive"),
        ("a: &a [1]\nb: &b [" + "*a, " * 999 + "*a]\nc: [" + "*b, " * 99 + "*b]\n", "more than 20000 values"),
        ("a: \x07\n", "unacceptable character"),
        ("a: 1\n---\nb: 2\n", "another document"),
        ("<<: 3\n", "expected a mapping"),
        (BASE + "c:\n  <<: *base\n  a: 3\n  a: 4\n", "the key 'a' stands twice"),
    ],
)
def test_what_is_no_plain_setting_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "cpu.yaml"
    path.write_text(text)
    started = time.monotonic()
    cause = refused(path, "qwen3-tts").cause
    assert words in cause
    assert "\n" not in cause
    assert len(cause) < 1000
    assert time.monotonic() - started < 10


def test_a_merge_key_is_read_as_vllm_omni_reads_it(tmp_path: Path) -> None:
    from vllm_omni.config.yaml_util import load_yaml_config

    path = tmp_path / "x.yaml"
    path.write_text(BASE + "c:\n  <<: *base\n  a: 3\n")
    settings = settings_yaml.parse(path.read_text())
    assert settings["c"] == {"a": 3, "b": 2}
    assert load_yaml_config(path) == settings


@pytest.mark.parametrize("devices", ["\u0663", "0\n", "0,", "1" * 5000, "0,\u0661"])
def test_devices_are_few_plain_digits(tmp_path: Path, devices: str) -> None:
    path = edited(tmp_path, "qwen3-tts", "cpu", lambda s: s["stages"][0].update(devices=devices))
    cause = refused(path, "qwen3-tts").cause
    assert "stages[0].devices" in cause
    assert len(cause) < 1000


def test_a_checkout_without_configs_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "configs").mkdir()
    monkeypatch.setenv("FIRSTWORD_ROOT", str(tmp_path))
    with pytest.raises(FirstwordError, match=r"no deploy config lies in .*configs/engines/qwen3-tts") as caught:
        configs.load("qwen3-tts", "cpu")
    assert "restore that folder" in caught.value.mend
