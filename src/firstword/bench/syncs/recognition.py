"""Step-Audio-2 hears: `embed_multimodal` of the first stage, as the runner calls it for a batch of requests."""

import json
from pathlib import Path
from typing import Any

import torch

from firstword.bench.syncs.workload import Phase

RATE = 16000


def recognize(checkpoint: Path, device: torch.device, phase: Phase, requests: int) -> Any:
    """Return the features of one audio for each request, of 0.6 s and more, no two of equal length."""
    from vllm_omni.model_executor.models.step_audio2 import step_audio2_thinker as module

    model = _encoder(module, checkpoint).to(device)
    audios = [torch.sin(torch.arange(RATE * 3 // 5 + 1600 * n) * (0.05 + 0.01 * n)) for n in range(requests)]
    mels, lengths = module.padding_mels([module.log_mel_spectrogram(audio) for audio in audios])
    # What vLLM's batching of items gives: on the device already, but what a model keeps on the host.
    inputs: dict[str, Any] = {"audio_mels": mels.to(device), "audio_lens": lengths.to(device)}
    if "audio_pieces" in module.StepAudio2AudioInputs.__annotations__:
        inputs["audio_mels"] = [mel[:, :length] for mel, length in zip(mels.to(device), lengths.tolist(), strict=True)]
        inputs["audio_pieces"] = torch.ones(requests, dtype=torch.int32)
    with torch.inference_mode(), phase("one call"):
        return model.embed_multimodal(**inputs)


def _encoder(module: Any, checkpoint: Path) -> Any:
    """Return the thinker with its audio encoder and adapter alone."""
    from safetensors.torch import load_file

    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))["audio_encoder_config"]
    model = module.StepAudio2ThinkerForConditionalGeneration.__new__(module.StepAudio2ThinkerForConditionalGeneration)
    torch.nn.Module.__init__(model)
    names = {"n_mels": "n_mels", "n_ctx": "n_audio_ctx", "n_state": "n_audio_state"}
    names |= {"n_head": "n_audio_head", "n_layer": "n_audio_layer"}
    model.encoder = module.AudioEncoder(**{ours: config[theirs] for ours, theirs in names.items()})
    model.adapter = module.Adaptor(n_state=config["n_audio_state"], n_hidden=config["llm_dim"])
    weights: dict[str, torch.Tensor] = {}
    for file in sorted(checkpoint.glob("*.safetensors")):
        weights |= load_file(file)
    for name in ("encoder", "adapter"):
        part = {key.removeprefix(f"{name}."): w.float() for key, w in weights.items() if key.startswith(f"{name}.")}
        getattr(model, name).load_state_dict(part)
    return model.float().eval()
