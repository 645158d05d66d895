"""Checks on what Qwen3-TTS and the vocoder ask of the device: reads are counted, results compared."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from firstword.bench.syncs.catalogue import WORKLOADS
from firstword.bench.syncs.claims import counting
from firstword.bench.syncs.counting import READ, Counts
from firstword.bench.syncs.held import CLAIMED, release
from firstword.bench.syncs.workload import counted

CHECKPOINT = Path(os.environ["CHECKPOINT"])


def _reads(workload: str) -> dict[str, int]:
    chosen = WORKLOADS[workload]
    _, counts = counted(chosen, CHECKPOINT.with_name(chosen.model))
    return {name: counts.total(name, READ) for name in counts.events}


def reference() -> dict[str, int]:
    return _reads("reference")


def outputs() -> dict[str, int]:
    return _reads("decode step, 8 requests, no async scheduling")


def tokenized() -> dict[str, Any]:
    """Three new requests through `preprocess_batch`, beside the ids of each text alone."""
    from vllm_omni.model_executor.models.qwen3_tts import prompt_embeds_builder as module

    builder = module.Qwen3TTSPromptEmbedsBuilder.__new__(module.Qwen3TTSPromptEmbedsBuilder)
    builder._text_tokenizer = None
    builder._model_path = str(CHECKPOINT.with_name("qwen3-tts-base-synthetic"))
    texts = {"a": "One two three.", "b": "Ein längerer Satz, mit Umlauten.", "c": "四 <|im_end|> 😀"}
    buffer: dict[str, Any] = {
        name: {"text": [text], "task_type": ["Base"], "ref_text": [text[::-1]]} for name, text in texts.items()
    }
    tokenizer = builder.get_text_tokenizer()
    with mock.patch.object(type(tokenizer), "__call__", autospec=True, side_effect=type(tokenizer).__call__) as calls:
        builder.preprocess_batch(req_ids=list(buffer), model_intermediate_buffer=buffer, device=torch.device("cpu"))
    pairs = [
        (info.get(key), tokenizer(build(text), return_tensors="pt", padding=False)["input_ids"][0])
        for info, text in zip(buffer.values(), texts.values(), strict=True)
        for key, build, text in (
            (module.PRECOMPUTED_TEXT_IDS_KEY, module.build_assistant_text, text),
            (module.PRECOMPUTED_REF_IDS_KEY, module.build_ref_text, text[::-1]),
        )
    ]
    return {
        "calls": calls.call_count,
        "used": all(ids is not None for ids, _ in pairs),
        "the same ids": all(ids is None or torch.equal(ids, alone) for ids, alone in pairs),
    }


def inverse_stft() -> dict[str, Any]:
    """The vocoder's last operation on a claimed device, against PyTorch's own."""
    from flashcosyvoice.modules.hifigan import HiFTGenerator

    window = torch.hann_window(16)
    vocoder = SimpleNamespace(istft_params={"n_fft": 16, "hop_len": 4}, stft_window=window)
    draw = torch.Generator().manual_seed(0)
    magnitude, phase = (torch.rand(2, 9, 401, generator=draw) * 3 for _ in range(2))
    spectrum = torch.complex(magnitude * torch.cos(phase), magnitude * torch.sin(phase))
    with torch.inference_mode(), counting(Counts()) as counts:
        given = magnitude.to(CLAIMED), phase.to(CLAIMED)
        with counts.phase("chunk"):
            audio = HiFTGenerator._istft(vocoder, *given)
    return {
        "reads": counts.total("chunk", READ),
        "equal": torch.equal(release(audio), torch.istft(spectrum, 16, 4, 16, window=window)),
    }
