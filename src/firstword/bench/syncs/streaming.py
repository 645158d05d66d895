"""Step-Audio-2 speaks: the second stage, step by step, with the real flow and vocoder and the runner's outputs."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from firstword.bench.syncs import qwen3_tts
from firstword.bench.syncs.workload import Phase

CHUNK, LOOKAHEAD = 25, 3
TOKENS = [(37 * n) % 6000 + 1 for n in range(60)]
_PHASES = ("first chunk", "next chunk", "last chunk")


def speak(checkpoint: Path, device: torch.device, phase: Phase, requests: int) -> Any:
    """Return the audio of streams of three chunks, after one of a voice that was not used before.

    The first chunk is that of the voice's first stream, and of those beside it. The release takes one request in a
    step: there, a chunk of each is as many steps.
    """
    from vllm_omni.model_executor.models.step_audio2 import step_audio2_token2wav as module

    config = SimpleNamespace(
        model_config=SimpleNamespace(hf_config=SimpleNamespace(), model=str(checkpoint)),
        device_config=SimpleNamespace(device=str(device)),
    )
    stage = module.StepAudio2Token2WavForConditionalGeneration(vllm_config=config)
    voice = stage._default_prompt_wav
    names = [f"r{n}" for n in range(requests)]
    steps = [names] if hasattr(stage, "request_errors") else [[name] for name in names]
    runners = [_runner(stage, config, device, together) for together in steps]
    with torch.inference_mode():
        stage.token2wav._ensure_models_loaded()
        with phase("a voice, once"):
            stage.token2wav.cache[voice] = stage.token2wav._prepare_prompt(voice)
        audio = []
        for name, (ids, last) in zip(_PHASES, _chunks(), strict=True):
            tokens = torch.tensor(ids, dtype=torch.int32).to(device)
            with phase(name):
                audio += [_step(runner, tokens, last) for runner in runners]
    return audio


def _chunks() -> Iterator[tuple[list[int], bool]]:
    done = 0
    while len(TOKENS) - done > CHUNK + LOOKAHEAD:
        yield TOKENS[done : done + CHUNK + LOOKAHEAD], False
        done += CHUNK
    yield TOKENS[done:], True


def _runner(stage: Any, config: Any, device: torch.device, requests: list[str]) -> Any:
    from vllm_omni.worker.gpu_generation_model_runner import GPUGenerationModelRunner

    runner = qwen3_tts.runner(GPUGenerationModelRunner, stage, config, device, requests)
    runner.use_async_scheduling = False
    return runner


def _step(runner: Any, tokens: torch.Tensor, last: bool) -> Any:
    """One step as the runner makes it. The release looks for its mark on another level than where it is put."""
    from vllm_omni.worker.gpu_generation_model_runner import ExecuteModelState

    requests = runner.input_batch.req_ids
    count, mark = len(requests), {"left_context_size": int(last)}
    output = runner.model.forward(
        tokens.repeat(count),
        None,
        runtime_additional_information=[{**mark, "meta": mark, "generated_len": 0}] * count,
        request_ids=requests,
        request_seeds=[42] * count,  # as the deploy config gives it
        seq_token_counts=[len(tokens)] * count,
    )
    _, outputs = runner.extract_multimodal_outputs(output)
    fields = dict.fromkeys(ExecuteModelState._fields)
    runner.execute_model_state = ExecuteModelState(**{**fields, "multimodal_outputs": outputs})
    return runner.sample_tokens(None).multimodal_outputs
