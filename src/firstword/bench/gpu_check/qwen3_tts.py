"""Qwen3-TTS: references, prompts and the talker's outputs, at the sizes of the 1.7B models."""

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from firstword.bench.gpu_check.case import Call, Case, Output, Quiet, Sizes, floats, module, noise
from firstword.bench.gpu_check.cutting import Cutter

_MODELS = "vllm_omni/model_executor/models/qwen3_tts"
_TALKER = f"{_MODELS}/qwen3_tts_talker.py"
_BUILDER = f"{_MODELS}/prompt_embeds_builder.py"
_CLASS = "Qwen3TTSTalkerForConditionalGeneration"
_GROUPS = 16
_RATE = 24000
_FRAME = 1920  # samples of one code
_PADDINGS = 30  # that Mimi's convolutions make for one recording


def _outputs(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    """The talker's outputs of a decode step, and then all of them on the host, as the runner brings them."""
    make = cutter.cut(_TALKER, f"{_CLASS}.make_omni_output", OmniOutput=Output, logger=Quiet())
    hidden = noise(sizes["requests"], sizes["hidden"], seed=1, device=device, dtype=floats(device))
    buffer = [
        {
            "codes": {
                "audio": (torch.arange(_GROUPS)[None] + n).to(device),
                "ref": torch.arange(_GROUPS * sizes["reference"]).reshape(-1, _GROUPS),
            },
            "meta": {"codec_streaming": True, "ref_code_len": sizes["reference"]},
        }
        for n in range(sizes["requests"])
    ]

    def call() -> Any:
        output = make(None, hidden, model_intermediate_buffer=buffer)
        return {
            kind: {
                name: [one.cpu() for one in value] if isinstance(value, list) else value.cpu()
                for name, value in fields.items()
            }
            for kind, fields in output.multimodal_outputs.items()
        }

    return call


def _artifacts(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    """A reference's codes and speaker embedding are put into the cache, and used by the next request."""
    put, get = (
        cutter.cut(_BUILDER, f"Qwen3TTSPromptEmbedsBuilder.{name}_ref_audio_artifacts") for name in ("put", "get")
    )
    codes = (torch.arange(sizes["reference"] * _GROUPS) % 2048).reshape(-1, _GROUPS).to(device)
    speaker = noise(sizes["hidden"], seed=1, device=device, dtype=floats(device))

    def call() -> Any:
        builder = SimpleNamespace(
            _ref_audio_artifact_cache=OrderedDict(),
            _ref_audio_artifact_cache_max_entries=256,
            _embedding_dtype=speaker.dtype,
            _device=lambda: device,
        )
        put(builder, "key", ref_code=codes, ref_spk_embedding=speaker)
        found = get(builder, "key")
        return [found["ref_code"].to(device=device), found["ref_spk_embedding"].to(device=device)]

    return call


def _prompt(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    """A prompt is prefilled in two pieces."""
    preprocess = cutter.cut(_TALKER, f"{_CLASS}.preprocess", logger=Quiet())
    dtype = floats(device)
    whole = noise(sizes["prompt"], sizes["hidden"], seed=1, device=device, dtype=dtype)
    rest = noise(8, sizes["hidden"], seed=2, device=device, dtype=dtype)
    talker = SimpleNamespace(
        _embedding_dtype=dtype,
        _tts_pad_embed=noise(1, sizes["hidden"], seed=3, device=device, dtype=dtype),
        _prompt_builder=SimpleNamespace(build_prompt_embeds=lambda **_: (whole, rest, None, None)),
        talker_config=SimpleNamespace(codec_pad_id=2148, num_code_groups=_GROUPS),
    )
    piece = sizes["prompt"] // 2
    ids = torch.zeros(piece, dtype=torch.int32).to(device)
    tail = torch.zeros(piece + 3, dtype=torch.int32).to(device)  # more than the prompt fills
    length = 2 * piece + 3

    def call() -> Any:
        known = {"text": ["One two."], "_omni_is_prefill": True, "_omni_prompt_len": length}
        _, first, kept = preprocess(talker, input_ids=ids, input_embeds=None, _omni_num_computed_tokens=0, **known)
        known |= {name: kept[name] for name in ("embed", "hidden_states", "meta")}
        _, second, _ = preprocess(talker, input_ids=tail, input_embeds=None, _omni_num_computed_tokens=piece, **known)
        return [first, second]

    return call


def _speaker(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    """A recording becomes a mel spectrogram and a speaker embedding."""
    extract = cutter.cut(
        _BUILDER,
        "Qwen3TTSPromptEmbedsBuilder.extract_speaker_embedding",
        logger=Quiet(),
        mel_filter_bank=lambda **_: noise(128, 513, seed=4, device=torch.device("cpu")).abs(),
    )
    encoder = cutter.cut(_TALKER, "Qwen3TTSSpeakerEncoder")
    width = sizes["channels"]
    config = SimpleNamespace(
        mel_dim=128,
        enc_dim=sizes["hidden"],
        enc_channels=[width, width, width, width, 3 * width],
        enc_kernel_sizes=[5, 3, 3, 3, 1],
        enc_dilations=[1, 2, 3, 4, 1],
        enc_attention_channels=128,
        enc_res2net_scale=8,
        enc_se_channels=128,
    )
    dtype = floats(device)
    builder = SimpleNamespace(
        _device=lambda: device,
        _embedding_dtype=dtype,
        _speaker_encoder=module(lambda: encoder(config), device, dtype),
        _config=SimpleNamespace(speaker_encoder_config=SimpleNamespace(sample_rate=_RATE)),
    )
    wave = (0.3 * np.sin(np.arange(sizes["samples"]) * 0.05)).astype(np.float32)
    return lambda: extract(builder, wave, _RATE)


class _Convolution(torch.nn.Module):
    """Its padding is in a 0-d buffer, as in Mimi's."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("padding_total", torch.tensor(2))

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        total = int(self.padding_total)
        return torch.nn.functional.pad(wave, (total, 0))[..., : wave.shape[-1]]


class _Mimi(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolutions = torch.nn.ModuleList(_Convolution() for _ in range(_PADDINGS))

    def encode(self, input_values: torch.Tensor, return_dict: bool) -> Any:
        wave = input_values
        for convolution in self.convolutions:
            wave = convolution(wave)
        frames = wave[..., ::_FRAME].abs().float()
        return SimpleNamespace(audio_codes=(frames * torch.arange(1, 33, device=wave.device)[:, None] * 100).long())


class _Features(dict[str, torch.Tensor]):
    def to(self, what: Any) -> "_Features":
        only = isinstance(what, torch.dtype)  # of floats
        return _Features({k: v.to(what) if not only or v.is_floating_point() else v for k, v in self.items()})


class _Extractor:
    sampling_rate = _RATE

    def __call__(self, raw_audio: list[Any], sampling_rate: int, return_tensors: str) -> _Features:
        longest = max(map(len, raw_audio))
        values = torch.zeros(len(raw_audio), 1, longest)
        mask = torch.zeros(len(raw_audio), 1, longest, dtype=torch.long)
        for row, wave in enumerate(raw_audio):
            values[row, 0, : len(wave)] = torch.from_numpy(wave)
            mask[row, 0, : len(wave)] = 1
        return _Features(input_values=values, padding_mask=mask)


def _codes(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    """Two recordings become codes."""
    encode = cutter.cut(_TALKER, f"{_CLASS}._encode_ref_audio_batch", AudioResampler=None)
    talker = SimpleNamespace(
        _encoder_feature_extractor=_Extractor(),
        _encoder_downsample_rate=_FRAME,
        _encoder_valid_num_quantizers=_GROUPS,
    )
    waves = [
        (0.3 * np.sin(np.arange(samples) * 0.05)).astype(np.float32)
        for samples in (sizes["samples"], sizes["samples"] * 2 // 3)
    ]

    talker.encoder = _Mimi().to(device)
    encode(talker, waves, _RATE, device=device)  # the patched one asks for the sizes once
    return lambda: encode(talker, waves, _RATE, device=device)


CASES = (
    Case(
        "outputs of a decode step",
        "`make_omni_output` of cloning requests, and its outputs copied to the host",
        ("vllm-omni/0055-counts-stay-on-the-host.patch",),
        {"requests": 8, "hidden": 2048, "reference": 125},
        {"requests": 8, "hidden": 32, "reference": 4},
        _outputs,
        "one copy for each output, for the runner",
    ),
    Case(
        "a known reference",
        "`put_ref_audio_artifacts`, `get_ref_audio_artifacts`: a recording, for one more request",
        ("vllm-omni/0053-artifacts-stay-on-the-device.patch",),
        {"hidden": 2048, "reference": 125},
        {"hidden": 32, "reference": 4},
        _artifacts,
    ),
    Case(
        "a prompt in two pieces",
        "`preprocess` of the talker, twice",
        ("vllm-omni/0054-prompts-stay-on-the-device.patch",),
        {"hidden": 2048, "prompt": 200},
        {"hidden": 32, "prompt": 10},
        _prompt,
        "a constant for the prompt's embeddings",
    ),
    Case(
        "a voice's embedding",
        "`extract_speaker_embedding` with its encoder: one recording",
        ("vllm-omni/0052-the-host-knows-a-recordings-sizes.patch",),
        {"hidden": 2048, "channels": 512, "samples": 240_000},
        {"hidden": 32, "channels": 16, "samples": 12_000},
        _speaker,
        "random numbers for the mel filters",
    ),
    Case(
        "a reference's codes",
        "`_encode_ref_audio_batch`: two recordings",
        ("vllm-omni/0052-the-host-knows-a-recordings-sizes.patch",),
        {"samples": 240_000},
        {"samples": 12_000},
        _codes,
        f"for Mimi {_PADDINGS} paddings, their sizes in 0-d buffers, and a product; for its feature extractor a mask",
    ),
)
