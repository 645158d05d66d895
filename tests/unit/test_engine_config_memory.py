"""The choice of a config and the memory arithmetic, on invented machines."""

import json
import wave
from pathlib import Path

import pytest

from firstword.engine import config as configs
from firstword.engine.config import Device, Geometry, memory
from firstword.errors import Exit, FirstwordError

GIB = 1024**3

QWEN3_TTS = configs.of_sizes(
    "qwen3-tts",
    {"layers": 28, "kv_heads": 8, "head_dim": 128, "hidden": 2048, "intermediate": 6144, "vocabulary": 3072},
    {"model.safetensors": 3857413744, "speech_tokenizer/model.safetensors": 682293092, "config.json": 4494},
)
STEP_AUDIO_2 = configs.of_sizes(
    "step-audio-2",
    {"layers": 28, "kv_heads": 4, "head_dim": 128, "hidden": 3584, "intermediate": 18944, "vocabulary": 158720},
    {
        "model-00001-of-00002.safetensors": 16630358528 - 1000,
        "model-00002-of-00002.safetensors": 1000,
        "token2wav/flow.pt": 623466603,
        "token2wav/flow.yaml": 1099,
    },
)
MODELS = {"qwen3-tts": QWEN3_TTS, "step-audio-2": STEP_AUDIO_2}


def gpu(total: float, free: float | None = None, index: int = 0) -> Device:
    return Device("cuda", index, f"GPU {index}", int(total * GIB), int((total if free is None else free) * GIB))


# What the cards report: 24 GB ones 22.5 to 24 GiB, an A100 of 40 GB 39.4, an H100 of 80 GB 79.1.
NONE: list[Device] = []
SMALL, MIDDLE, LARGE = [gpu(22.5)], [gpu(39.4)], [gpu(79.1)]
TWO_SMALL = [gpu(22.5), gpu(22.5, index=1)]
TWO_LARGE = [gpu(79.1), gpu(79.1, index=1)]
RAM = Device("cpu", 0, "this machine", 64 * GIB, 60 * GIB)


def plan(family: str, shape: str) -> configs.Plan:
    return configs.memory_plan(configs.load(family, shape), MODELS[family])


@pytest.mark.parametrize(
    ("devices", "qwen3_tts", "step_audio_2"),
    [
        (NONE, "cpu", "speech-cpu"),
        ([RAM], "cpu", "speech-cpu"),
        (SMALL, "1x24g", "asr-1x24g"),
        (MIDDLE, "1x24g", "speech-1x80g"),
        (LARGE, "1x80g", "speech-1x80g"),
        (TWO_SMALL, "2gpu", "speech-2gpu"),
        (TWO_LARGE, "1x80g", "speech-1x80g"),
    ],
)
def test_the_chosen_shape_fits(devices: list[Device], qwen3_tts: str, step_audio_2: str) -> None:
    assert configs.choose_shape("qwen3-tts", devices) == qwen3_tts
    assert configs.choose_shape("step-audio-2", devices) == step_audio_2
    for family, shape in (("qwen3-tts", qwen3_tts), ("step-audio-2", step_audio_2)):
        configs.check_fits(plan(family, shape), devices)


def test_an_environment_for_gpus_is_never_given_the_cpus_shape() -> None:
    assert configs.choose_shape("qwen3-tts", [], built_for="cuda") == "1x80g"
    assert configs.choose_shape("step-audio-2", [], built_for="cuda") == "speech-1x80g"


def test_kv_bytes_per_token_are_those_of_the_models() -> None:
    assert QWEN3_TTS.kv_bytes_per_token == 114688
    assert STEP_AUDIO_2.kv_bytes_per_token == 57344
    assert plan("qwen3-tts", "1x80g").kv_tokens == 74898


def test_weights_are_counted_by_stage() -> None:
    parts = {(p.stage, p.what): p.size for p in plan("step-audio-2", "speech-1x80g").parts}
    assert parts[0, "weights"] == 16630358528
    assert parts[1, "weights, loaded at the first request"] == 623466603
    assert parts[1, "flow caches, of all streams"] == (6 + 3) * (452 + 150) * 1_310_720


@pytest.mark.parametrize("speech", ["speech-1x80g", "asr-1x80g"])
def test_both_models_fit_on_one_80_gb_gpu(speech: str) -> None:
    both = plan("qwen3-tts", "1x80g").on(0) + plan("step-audio-2", speech).on(0)
    assert both < 0.95 * LARGE[0].total


def test_both_models_fit_on_two_24_gb_gpus() -> None:
    tts, step = plan("qwen3-tts", "2gpu"), plan("step-audio-2", "speech-2gpu")
    assert tts.devices == [1]
    for index in (0, 1):
        assert tts.on(index) + step.on(index) < 0.95 * TWO_SMALL[index].total


def refusal(family: str, shape: str, devices: list[Device]) -> FirstwordError:
    with pytest.raises(FirstwordError) as caught:
        configs.check_fits(plan(family, shape), devices)
    assert caught.value.code is Exit.DOES_NOT_FIT
    assert "\n" not in caught.value.cause + caught.value.mend
    return caught.value


def test_speech_on_24_gb_names_recognition() -> None:
    error = refusal("step-audio-2", "speech-1x80g", SMALL)
    assert "needs 35." in error.cause
    assert "which has 22.5 GiB" in error.cause
    assert "--shape asr-1x24g (recognition and text only)" in error.mend


def test_speech_on_two_small_gpus_names_the_shape_that_speaks() -> None:
    assert "--shape speech-2gpu" in refusal("step-audio-2", "speech-1x80g", TWO_SMALL).mend


def test_speech_comes_before_the_usual_choice() -> None:
    """36 GiB are too few to choose speech unasked, but they hold it."""
    assert configs.choose_shape("step-audio-2", [gpu(36)]) == "asr-1x24g"
    assert refusal("step-audio-2", "speech-2gpu", [gpu(36)]).mend == "pass --shape speech-1x80g"


def test_a_gpu_comes_before_the_cpu() -> None:
    assert "--shape asr-1x24g" in refusal("step-audio-2", "speech-1x80g", [*SMALL, RAM]).mend


def test_two_gpus_wanted_one_there() -> None:
    error = refusal("qwen3-tts", "2gpu", SMALL)
    assert "needs 2 GPU(s); 1 visible" in error.cause
    assert "--shape 1x24g" in error.mend


def test_gpu_wanted_none_there() -> None:
    assert "0 visible" in refusal("qwen3-tts", "1x80g", NONE).cause
    assert "--shape cpu" in refusal("qwen3-tts", "1x80g", [RAM]).mend


def test_memory_taken_by_another_engine_is_said() -> None:
    error = refusal("qwen3-tts", "1x80g", [gpu(79.1, free=20.0)])
    assert "59.1 GiB are taken by something else" in error.cause
    assert "--shape 1x24g" in error.mend


def test_nothing_fits() -> None:
    assert "use a GPU with 19.5 GiB free" in refusal("step-audio-2", "asr-1x24g", [gpu(15.7)]).mend


def test_the_second_gpu_is_checked_too() -> None:
    configs.check_fits(plan("step-audio-2", "speech-2gpu"), TWO_SMALL)
    error = refusal("step-audio-2", "speech-2gpu", [gpu(22.5), gpu(22.5, free=4.0, index=1)])
    assert "GPU 1" in error.cause


def test_cpu_memory_is_checked_where_it_is_known() -> None:
    small = Device("cpu", 0, "this machine", 16 * GIB, 8 * GIB)
    configs.check_fits(plan("step-audio-2", "speech-cpu"), NONE)
    configs.check_fits(plan("step-audio-2", "speech-cpu"), [RAM])
    error = refusal("step-audio-2", "speech-cpu", [small])
    assert "on this machine" in error.cause


def test_a_kv_cache_too_small_for_one_request(tmp_path: Path) -> None:
    text = configs.load("qwen3-tts", "1x24g").path.read_text()
    path = tmp_path / "1x24g.yaml"
    path.write_text(text.replace(str(6 * GIB), str(GIB // 4)))
    with pytest.raises(FirstwordError) as caught:
        configs.memory_plan(configs.load_file(path, "qwen3-tts"), QWEN3_TTS)
    assert caught.value.code is Exit.DOES_NOT_FIT
    assert f"to {4096 * 114688} or more" in caught.value.mend


@pytest.mark.parametrize("family", MODELS)
def test_every_shipped_config_holds_a_request_of_the_published_model(family: str) -> None:
    for shape in configs.shapes(family):
        assert plan(family, shape).kv_tokens >= 2048


def test_tensor_parallelism_splits_weights(tmp_path: Path) -> None:
    text = configs.load("step-audio-2", "asr-1x80g").path.read_text()
    path = tmp_path / "asr-2gpu.yaml"
    path.write_text(
        text.replace('devices: "0"', 'devices: "0,1"').replace("tensor_parallel_size: 1", "tensor_parallel_size: 2")
    )
    split = configs.memory_plan(configs.load_file(path, "step-audio-2"), STEP_AUDIO_2)
    assert split.devices == [0, 1]
    assert sum(p.size for p in split.parts if p.what == "weights") == STEP_AUDIO_2.language_model_bytes


def checkpoint(tmp_path: Path, config: dict[str, object]) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"x" * 1000)
    (tmp_path / "speech_tokenizer").mkdir()
    (tmp_path / "speech_tokenizer/model.safetensors").write_bytes(b"x" * 300)
    (tmp_path / "token2wav").mkdir()
    (tmp_path / "token2wav/flow.pt").write_bytes(b"x" * 70)
    return tmp_path


def test_geometry_of_a_folder(tmp_path: Path) -> None:
    numbers = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "hidden_size": 64,
        "intermediate_size": 128,
        "vocab_size": 2304,
    }
    found = configs.of_checkpoint(checkpoint(tmp_path, {"talker_config": numbers}), "qwen3-tts")
    assert found == Geometry("qwen3-tts", 2, 2, 32, 64, 128, 2304, 1000, 300)
    assert found.kv_bytes_per_token == 2 * 2 * 32 * 4


def test_the_prompt_voice_of_a_checkpoint_is_measured(tmp_path: Path) -> None:
    numbers = dict.fromkeys(("num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"), 2)
    folder = checkpoint(tmp_path, {"text_config": numbers | {"hidden_size": 64}})
    assert configs.of_checkpoint(folder, "step-audio-2").prompt_frames == 452
    (folder / "assets").mkdir()
    with wave.open(str(folder / "assets/default_female.wav"), "wb") as voice:
        voice.setparams((1, 2, 24000, 0, "NONE", ""))
        voice.writeframes(b"\0\0" * 36000)
    assert configs.of_checkpoint(folder, "step-audio-2").prompt_frames == 75


def test_geometry_of_step_audio_2_counts_its_attention_groups(tmp_path: Path) -> None:
    numbers = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_attention_groups": 1,
        "hidden_size": 128,
        "intermediate_size": 128,
        "vocab_size": 158720,
    }
    found = configs.of_checkpoint(checkpoint(tmp_path, {"text_config": numbers}), "step-audio-2")
    assert (found.kv_heads, found.head_dim, found.vocoder_bytes) == (1, 32, 70)


@pytest.mark.parametrize("text", [None, "{", "{}", '{"talker_config": {"hidden_size": 1}}', '{"talker_config": 3}'])
def test_geometry_of_a_broken_folder(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(FirstwordError) as caught:
        configs.of_checkpoint(tmp_path, "qwen3-tts")
    assert caught.value.code is Exit.CHECKPOINT_INCOMPLETE
    assert "config.json" in caught.value.cause


def test_the_plan_in_words() -> None:
    lines = plan("step-audio-2", "speech-2gpu").lines()
    assert lines[0].startswith("GPU 0: ")
    assert lines[0].endswith("(computed, not run)")
    assert any(line.startswith("GPU 1: ") for line in lines)
    assert "  stage 0 KV cache: 2.0 GiB" in lines
    assert memory.gib(GIB * 3 // 2) == "1.5 GiB"
