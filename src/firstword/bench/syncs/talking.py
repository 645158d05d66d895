"""Qwen3-TTS, step by step: decoding, references, and code2wav, each as the runners do it."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from firstword.bench.syncs import qwen3_tts
from firstword.bench.syncs.qwen3_tts import GROUPS
from firstword.bench.syncs.workload import Phase


def decode(checkpoint: Path, device: torch.device, phase: Phase, requests: int, background: bool) -> Any:
    """Return codes and outputs of the second of two decode steps of cloning requests.

    `background`: outputs are made beside the next step, as with async scheduling (what a GPU has).
    """
    from vllm_omni.worker.gpu_ar_model_runner import GPUARModelRunner

    names = [f"r{n}" for n in range(requests)]
    with qwen3_tts.engine_config(checkpoint, "Qwen3TTSTalkerForConditionalGeneration") as config:
        model = qwen3_tts.talker(config, device)
        runner = qwen3_tts.runner(GPUARModelRunner, model, config, device, names)
        runner.use_async_scheduling = background
        reference = torch.arange(GROUPS * 12).reshape(12, GROUPS) % 2000
        for name in names:
            runner.model_intermediate_buffer[name] = {
                "text": ["One two three."],
                "task_type": ["Base"],
                "codes": {"audio": torch.zeros(1, GROUPS, dtype=torch.int64).to(device), "ref": reference.clone()},
                "meta": {"talker_text_offset": 0, "codec_streaming": True, "ref_code_len": 12},
                "hidden_states": {
                    "last": _wave(1, runner, device)[0],
                    "trailing_text": _wave(8, runner, device),
                },
            }
        hidden = _wave(requests, runner, device)
        sampled = ((torch.arange(requests, dtype=torch.int32) * 7 + 11) % 2000).reshape(requests, 1).to(device)
        with torch.inference_mode():
            _step(runner, names, hidden, sampled)
            with phase("one step"):
                output = _step(runner, names, hidden, sampled)
        codes = [runner.model_intermediate_buffer[name]["codes"]["audio"] for name in names]
        return [codes, output.sampled_token_ids, output.multimodal_outputs, output.inter_stage_outputs]


def _wave(rows: int, runner: Any, device: torch.device) -> torch.Tensor:
    hidden = runner.model.mtp_hidden_size
    values = torch.sin(torch.arange(rows * hidden) * 0.37).reshape(rows, hidden)
    return values.to(qwen3_tts.model_dtype(runner.model)).to(device)


def _step(runner: Any, names: list[str], hidden: torch.Tensor, sampled: torch.Tensor) -> Any:
    """One step but for the backbone, which gives `hidden`, and the sampler, which gives `sampled`."""
    from vllm.config import CUDAGraphMode
    from vllm.forward_context import BatchDescriptor
    from vllm_omni.worker.gpu_ar_model_runner import ExecuteModelState

    count = len(names)
    step = qwen3_tts.scheduled(names)
    runner.input_ids.gpu.copy_(sampled.reshape(-1))
    eager = (CUDAGraphMode.NONE, BatchDescriptor(num_tokens=count), None, None, None)
    runner._determine_batch_execution_and_padding = lambda **_: eager
    runner._preprocess(step, count)
    output = runner.model.make_omni_output(hidden, **runner._build_model_kwargs_extra())
    fields = dict.fromkeys(ExecuteModelState._fields)
    fields |= {"scheduler_output": step, "hidden_states": hidden, "multimodal_outputs": output.multimodal_outputs}
    runner.execute_model_state = ExecuteModelState(**fields)
    return _sample(runner, names, sampled)


def _sample(runner: Any, names: list[str], sampled: torch.Tensor) -> Any:
    """Run the runner's `sample_tokens` on what a sampler would have given."""
    index = {name: n for n, name in enumerate(names)}
    pinned = torch.empty(sampled.shape, dtype=sampled.dtype)

    def bookkeeping(*_: Any) -> Any:
        # vLLM's own: with async scheduling the ids stay on the device, else `_to_list` waits for them.
        ids = [] if runner.use_async_scheduling else runner._to_list(sampled)
        return {}, None, ids, {}, list(names), dict(index), []

    vars(runner).update(
        sampled_token_ids_pinned_cpu=pinned,
        transfer_event=torch.cuda.Event() if sampled.is_cuda else mock.MagicMock(),
        async_output_copy_stream=torch.cuda.Stream() if sampled.is_cuda else mock.MagicMock(),
        _sampled_token_ids_cpu_override=None,
        _sample=lambda *_: SimpleNamespace(sampled_token_ids=sampled, logprobs_tensors=None),
        _update_states_after_model_execute=lambda *_: None,
        _bookkeeping_sync=bookkeeping,
        eplb_step=lambda: None,
    )
    if sampled.is_cuda or not runner.use_async_scheduling:
        output = runner.sample_tokens(None)
    else:  # for comparison, on the CPU, where there is no stream to copy on
        runner.use_async_scheduling = False
        output = runner.sample_tokens(None)
        runner.use_async_scheduling = True
    return output.get_output() if hasattr(output, "get_output") else output


def clone(checkpoint: Path, device: torch.device, phase: Phase) -> Any:
    """Return the prompts of a request with a new recording, and of another with the same one."""
    with qwen3_tts.engine_config(checkpoint, "Qwen3TTSTalkerForConditionalGeneration") as config:
        model = qwen3_tts.talker(config, device)
        results = []
        with torch.inference_mode():
            ids = torch.zeros(40, dtype=torch.int32).to(device)
            _prompt(model, ids, pitch=90.0)  # loads the tokenizers
            for name in ("a new recording", "the same again"):
                with phase(name):
                    results.append(_prompt(model, ids, pitch=130.0))
    return results


def _prompt(model: Any, ids: torch.Tensor, pitch: float) -> Any:
    """Build one prompt as the runner's preprocess does: first for all that are new, then for each."""
    seconds, rate = 1.6, 24000
    wave = [0.3 * math.sin(2 * math.pi * pitch * n / rate) for n in range(int(seconds * rate))]
    buffer = {
        "r": {
            "text": ["One two three."],
            "task_type": ["Base"],
            "language": ["English"],
            "ref_audio": [[wave, rate]],
            "ref_text": ["Four five."],
        }
    }
    model.preprocess_batch(req_ids=["r"], model_intermediate_buffer=buffer, device=ids.device)
    info = {**buffer["r"], "_omni_is_prefill": True, "_omni_num_computed_tokens": 0, "_omni_prompt_len": 40}
    return model.preprocess(input_ids=ids, input_embeds=None, **info)


def code2wav(checkpoint: Path, device: torch.device, phase: Phase, requests: int) -> Any:
    """Return the audio of one step with a chunk for each request."""
    from vllm_omni.worker.gpu_generation_model_runner import ExecuteModelState, GPUGenerationModelRunner

    names = [f"r{n}" for n in range(requests)]
    with qwen3_tts.engine_config(checkpoint, "Qwen3TTSCode2Wav") as config:
        model = qwen3_tts.vocoder(config, device)
        runner = qwen3_tts.runner(GPUGenerationModelRunner, model, config, device, names)
        runner.use_async_scheduling = False
        frames = 12
        ids = (torch.arange(requests * GROUPS * frames, dtype=torch.int32) * 7 % 2000).to(device)
        step = {
            "input_ids": ids,
            "positions": ids,
            "intermediate_tensors": None,
            "inputs_embeds": None,
            "logits_indices": None,
            "model_kwargs": {"seq_token_counts": [GROUPS * frames] * requests},
        }
        for name in names:
            runner.model_intermediate_buffer[name] = {"meta": {"left_context_size": 2, "finished": False}}

        def once() -> Any:
            _, outputs = runner.extract_multimodal_outputs(runner._run_generation_model(**step))
            fields = dict.fromkeys(ExecuteModelState._fields)
            runner.execute_model_state = ExecuteModelState(**{**fields, "multimodal_outputs": outputs})
            return runner.sample_tokens(None)

        with torch.inference_mode():
            once()  # the first step logs the range of its codes
            with phase("one step"):
                output = once()
        return [output.multimodal_outputs, output.inter_stage_outputs]
