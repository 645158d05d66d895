"""Step-Audio-2 speaks: the second stage's `forward`, chunk by chunk, with the real flow and vocoder."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from firstword.bench.syncs.workload import Phase

CHUNK, LOOKAHEAD = 25, 3
TOKENS = [(37 * n) % 6000 + 1 for n in range(60)]
_PHASES = ("first chunk", "next chunk", "last chunk")


def speak(checkpoint: Path, device: torch.device, phase: Phase) -> Any:
    """Return the audio of one stream of three chunks, after one of a voice that was not used before."""
    from vllm_omni.model_executor.models.step_audio2 import step_audio2_token2wav as module

    config = SimpleNamespace(
        model_config=SimpleNamespace(hf_config=SimpleNamespace(), model=str(checkpoint)),
        device_config=SimpleNamespace(device=str(device)),
    )
    stage = module.StepAudio2Token2WavForConditionalGeneration(vllm_config=config)
    voice = stage._default_prompt_wav
    with torch.inference_mode():
        stage.token2wav._ensure_models_loaded()
        with phase("a voice, once"):
            stage.token2wav.cache[voice] = stage.token2wav._prepare_prompt(voice)
        audio = []
        for name, (ids, last) in zip(_PHASES, _chunks(), strict=True):
            tokens = torch.tensor(ids, dtype=torch.int32).to(device)
            with phase(name):
                audio.append(_step(stage, tokens, last))
    return audio


def _chunks() -> Iterator[tuple[list[int], bool]]:
    done = 0
    while len(TOKENS) - done > CHUNK + LOOKAHEAD:
        yield TOKENS[done : done + CHUNK + LOOKAHEAD], False
        done += CHUNK
    yield TOKENS[done:], True


def _step(stage: Any, tokens: torch.Tensor, last: bool) -> Any:
    """One pass as the runner makes it. The release looks for its mark on another level than where it is put."""
    mark = {"left_context_size": int(last)}
    output = stage.forward(
        tokens,
        None,
        runtime_additional_information=[{**mark, "meta": mark, "generated_len": 0}],
        request_ids=["r"],
        request_seeds=[None],
        seq_token_counts=[len(tokens)],
    )
    return output.multimodal_outputs["model_outputs"]
