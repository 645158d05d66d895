"""The generation runner's copies to the host, after code2wav and token2wav."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from firstword.bench.gpu_check.case import Call, Case, Output, Quiet, Sizes, noise
from firstword.bench.gpu_check.cutting import Cutter

_RUNNER = "vllm_omni/worker/gpu_generation_model_runner.py"
_FRAME = 1920  # samples at 24 kHz, of one of Qwen3-TTS's codes
# What one step leaves for `sample_tokens`: a tuple of twelve, in which the outputs are the eleventh.
_FIELDS, _OUTPUTS = 12, 10


def to_host(cutter: Cutter, device: torch.device) -> Callable[[list[str], dict[str, Any]], Any]:
    """Return `sample_tokens` as a function of requests and what their model gave."""
    sample = cutter.cut(
        _RUNNER,
        "GPUGenerationModelRunner.sample_tokens",
        logger=Quiet(),
        OmniModelRunnerOutput=Output,
        AsyncGPUModelRunnerOutput=Output,
        get_pp_group=None,
        partition_payload_list=None,
        _ensure_tensor_values=dict,
    )

    def call(requests: list[str], outputs: dict[str, Any]) -> Any:
        places = {name: n for n, name in enumerate(requests)}
        batch = SimpleNamespace(req_ids=requests, req_id_to_index=places, num_reqs=len(requests))
        runner = SimpleNamespace(
            kv_connector_output=None,
            execute_model_state=tuple(outputs if n == _OUTPUTS else None for n in range(_FIELDS)),
            speculative_config=None,
            input_batch=batch,
            requests={},
            device=device,
            routed_experts_initialized=False,
            supports_mm_inputs=False,
            use_async_scheduling=False,
            _async_chunk=False,
            _request_errors={},
            _should_accumulate_full_payload_output=lambda: False,
            get_omni_connector_output=lambda: None,
        )
        return sample(runner).multimodal_outputs

    return call


def _step(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    runner = to_host(cutter, device)
    names = [f"r{n}" for n in range(sizes["requests"])]
    audio = [noise(sizes["frames"] * _FRAME, seed=n, device=device) for n in range(len(names))]
    return lambda: runner(names, {"model_outputs": audio})


CASES = (
    Case(
        "outputs of a code2wav step",
        "`sample_tokens` of the generation runner: the audio of all requests",
        ("vllm-omni/0045-one-copy-for-a-step.patch",),
        {"requests": 8, "frames": 25},
        {"requests": 8, "frames": 2},
        _step,
        "a constant for code2wav's audio",
    ),
)
