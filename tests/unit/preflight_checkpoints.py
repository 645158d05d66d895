"""Checkpoints of a few kilobytes: every file that serving reads, whole in form, empty in content."""

import json
import zipfile
from pathlib import Path

FLOW_YAML = """\
flow: !new:cosyvoice2.flow.flow.CausalMaskedDiffWithXvec
    input_size: 512
    encoder: !new:cosyvoice2.transformer.upsample_encoder_v2.UpsampleConformerEncoderV2
        input_size: 512
    decoder: !new:cosyvoice2.flow.flow_matching.CausalConditionalCFM
        inference_cfg_rate: 0.7
        estimator: !new:cosyvoice2.flow.decoder_dit.DiT
            in_channels: 320
"""
_LANGUAGE_MODEL = {
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "hidden_size": 64,
    "head_dim": 32,
    "intermediate_size": 128,
    "vocab_size": 1000,
}


def safetensors(path: Path, names: tuple[str, ...] = ("weight",)) -> None:
    header = {
        name: {"dtype": "F32", "shape": [4], "data_offsets": [16 * at, 16 * at + 16]} for at, name in enumerate(names)
    }
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(16 * len(names)))


def torch_file(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
        archive.writestr("archive/data/0", bytes(64))


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 16384
    length = bytes([len(content) & 0x7F | 0x80, len(content) >> 7]) if len(content) > 127 else bytes([len(content)])
    return bytes([number << 3 | 2]) + length + content


def onnx_file(path: Path, beside: dict[str, int] | None = None) -> None:
    """Write a model of one initializer for each file of weights beside it: name -> bytes."""
    graph = b""
    for name, length in (beside or {}).items():
        pairs = {"location": name, "offset": "0", "length": str(length)}
        entries = [_field(13, _field(1, key.encode()) + _field(2, value.encode())) for key, value in pairs.items()]
        graph += _field(5, b"".join(entries))
    path.write_bytes(b"\x08\x08" + _field(7, graph + _field(2, b"main")))


def step_audio_2(folder: Path) -> Path:
    (folder / "token2wav").mkdir(parents=True)
    inner = {"architectures": ["Qwen2ForCausalLM"]} | _LANGUAGE_MODEL
    config = {"model_type": "step_audio_2", "architectures": ["StepAudio2ForCausalLM"], "text_config": inner}
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    safetensors(folder / "model.safetensors")
    (folder / "token2wav/flow.yaml").write_text(FLOW_YAML)
    for name in ("flow.pt", "hift.pt"):
        torch_file(folder / "token2wav" / name)
    onnx_file(folder / "token2wav/campplus.onnx")
    onnx_file(folder / "token2wav/speech_tokenizer_v2_25hz.onnx", {"weights.data": 64})
    (folder / "token2wav/weights.data").write_bytes(bytes(64))
    return folder


def qwen3_tts(folder: Path) -> Path:
    (folder / "speech_tokenizer").mkdir(parents=True)
    config = {"model_type": "qwen3_tts", "tts_model_type": "custom_voice", "talker_config": _LANGUAGE_MODEL}
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer_config.json", "preprocessor_config.json", "vocab.json"):
        (folder / name).write_text("{}")
    (folder / "merges.txt").write_text("#version: 0.2\n")
    safetensors(folder / "model.safetensors")
    for name in ("config.json", "preprocessor_config.json"):
        (folder / "speech_tokenizer" / name).write_text("{}")
    safetensors(folder / "speech_tokenizer/model.safetensors")
    return folder
