"""Deploy configs against the installed vLLM-Omni: its loader, its accepted keys, its own deploy files."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstword.engine import config as configs
from firstword.engine.config import accepted

UPSTREAM = {
    ("qwen3-tts", ""): "qwen3_tts.yaml",
    ("step-audio-2", "speech"): "step_audio_2_async_chunk.yaml",
    ("step-audio-2", "asr"): "step_audio_2_asr.yaml",
}
ALL = [(family, shape) for family in ("qwen3-tts", "step-audio-2") for shape in configs.shapes(family)]


def upstream(family: str, shape: str) -> dict[str, Any]:
    name = UPSTREAM[family, shape.rpartition("-")[0]]
    deploy: dict[str, Any] = yaml.safe_load((files("vllm_omni") / "deploy" / name).read_text())
    return deploy


def flat(value: Any, place: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], Any]:
    """Return every leaf by its path; lists of numbers are leaves."""
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        pairs = list(enumerate(value))
    else:
        return {place: value}
    return {path: leaf for key, item in pairs for path, leaf in flat(item, (*place, key)).items()}


def places(path: Path) -> dict[tuple[str | int, ...], int]:
    """Return the line (from 0) of every leaf's key in a YAML file."""
    found: dict[tuple[str | int, ...], int] = {}

    def walk(node: yaml.Node, place: tuple[str | int, ...]) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                found[(*place, key.value)] = key.start_mark.line
                walk(value, (*place, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                walk(value, (*place, index))

    walk(yaml.compose(path.read_text()), ())
    return found


def commented(lines: list[str], number: int) -> bool:
    """Whether the line carries a comment, or a comment stands right above it."""
    return "#" in lines[number] or lines[number - 1].lstrip().startswith("#")


def test_the_recorded_keys_are_those_of_the_installed_version() -> None:
    recorded, installed = accepted.recorded(), accepted.installed()
    for place in installed:
        assert recorded[place] == installed[place], f"run: python -m firstword.engine.config.accepted ({place})"
    assert recorded.keys() == installed.keys()
    assert {"max_num_seqs", "kv_cache_memory_bytes", "devices"} <= set(recorded["stage"])
    assert {"codec_chunk_frames", "decode_batch_max_size"} <= set(recorded["connector_extra"])


@pytest.mark.parametrize(("family", "shape"), ALL)
def test_the_real_loader_takes_every_key(family: str, shape: str) -> None:
    from vllm_omni.config.stage_config import load_deploy_config

    config = configs.load(family, shape)
    loaded = load_deploy_config(config.path)
    assert [stage.stage_id for stage in loaded.stages] == [stage.id for stage in config.stages]
    for stage, ours in zip(loaded.stages, config.stages, strict=True):
        for key, value in ours.settings.items():
            held = getattr(stage, key) if hasattr(stage, key) else stage.engine_extras[key]
            assert held == value, key
    for key, value in config.resolved().items():
        if key != "stages":
            assert getattr(loaded, key) == value, key


@pytest.mark.parametrize(("family", "shape"), ALL)
def test_the_real_pipeline_takes_the_config(family: str, shape: str) -> None:
    from vllm_omni.config.stage_config import load_deploy_config, merge_pipeline_deploy
    from vllm_omni.model_executor.models.qwen3_tts.pipeline import QWEN3_TTS_PIPELINE
    from vllm_omni.model_executor.models.step_audio2.pipeline import STEP_AUDIO2_ASR_PIPELINE, STEP_AUDIO2_PIPELINE

    config = configs.load(family, shape)
    pipeline = QWEN3_TTS_PIPELINE
    if family == "step-audio-2":
        pipeline = STEP_AUDIO2_PIPELINE if config.speaks else STEP_AUDIO2_ASR_PIPELINE
        assert config.resolved().get("pipeline") in (None, pipeline.model_type)
    merged = merge_pipeline_deploy(pipeline, load_deploy_config(config.path))
    assert len(merged) == len(config.stages)
    for stage, ours in zip(merged, config.stages, strict=True):
        assert stage.yaml_engine_args["kv_cache_memory_bytes"] == ours.kv_cache_bytes
        assert stage.yaml_engine_args["async_chunk"] is (len(merged) > 1)


@pytest.mark.parametrize(("family", "shape"), ALL)
def test_every_difference_from_upstream_is_commented_at_its_line(family: str, shape: str) -> None:
    config = configs.load(family, shape)
    lines = config.path.read_text().splitlines()
    line = places(config.path)
    theirs, ours = flat(upstream(family, shape)), flat(config.resolved())
    different = [path for path in ours if path not in theirs or theirs[path] != ours[path]]
    assert different
    bare = [path for path in different if not commented(lines, line[path])]
    assert not bare, f"without a comment: {bare}"


@pytest.mark.parametrize(("family", "shape"), ALL)
def test_every_key_left_out_is_named(family: str, shape: str) -> None:
    config = configs.load(family, shape)
    comments = "\n".join(line.partition("#")[2] for line in config.path.read_text().splitlines())
    gone = {path for path in flat(upstream(family, shape)) if path not in flat(config.resolved())}
    if config.device == "cpu":
        gone = {path for path in gone if path[0] != "platforms"}  # upstream's sections for other devices
    for path in gone:
        name = "platforms" if path[0] == "platforms" else str(path[-1])
        assert name in comments, f"{path} is left out without a word"


def test_upstream_sequential_form_is_not_shipped() -> None:
    for shape in configs.shapes("step-audio-2"):
        config = configs.load("step-audio-2", shape)
        assert not config.speaks or config.resolved()["async_chunk"] is True
