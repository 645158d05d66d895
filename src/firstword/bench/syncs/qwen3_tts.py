"""Qwen3-TTS: the two stages' installed classes with their weights, and the engine's runners around them.

A runner is made without its engine: what `__init__` would set and the methods called here read is set by
hand, so a method that needs something else fails. The backbone's forward pass is vLLM's and needs an
engine's KV cache; a constant stands in for the hidden states that it would give. Everything else of a
step is the runner's and the model's own.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

GROUPS = 16
FRAME = 1920  # samples at 24 kHz


@contextlib.contextmanager
def engine_config(checkpoint: Path, architecture: str) -> Iterator[Any]:
    """Yield vLLM's configuration of a stage, with its process-wide state set up once."""
    import vllm_omni  # noqa: F401 - registers its configuration classes
    from vllm.config import set_current_vllm_config
    from vllm.distributed import parallel_state
    from vllm_omni.engine.arg_utils import OmniEngineArgs

    config = OmniEngineArgs(
        model=str(checkpoint),
        model_arch=architecture,
        enforce_eager=True,
        max_model_len=256,
        distributed_executor_backend="uni",
        worker_cls="auto",
    ).create_engine_config()
    config.model_config.async_chunk = True
    with set_current_vllm_config(config), tempfile.TemporaryDirectory() as scratch:
        if not parallel_state.model_parallel_is_initialized():
            parallel_state.init_distributed_environment(1, 0, f"file://{scratch}/rendezvous", 0, "gloo")
            parallel_state.initialize_model_parallel(1, 1)
        yield config


def talker(config: Any, device: torch.device) -> Any:
    """Return the first stage with its weights, moved to `device`."""
    from vllm.model_executor.model_loader import DefaultModelLoader
    from vllm_omni.model_executor.models.qwen3_tts.qwen3_tts_talker import Qwen3TTSTalkerForConditionalGeneration

    before = torch.get_default_dtype()
    torch.set_default_dtype(config.model_config.dtype)
    try:
        made = Qwen3TTSTalkerForConditionalGeneration(vllm_config=config)
    finally:
        torch.set_default_dtype(before)
    made.load_weights(DefaultModelLoader(config.load_config).get_all_weights(config.model_config, made))
    pad = made._tts_pad_embed
    made.to(device)
    made._build_stacked_codec_embed()
    for name, value in vars(made._prompt_builder).items():  # it was given the buffer, which is another now
        if value is pad:
            setattr(made._prompt_builder, name, made._tts_pad_embed)
    return made.eval()


def vocoder(config: Any, device: torch.device) -> Any:
    """Return the second stage with its weights, moved to `device`. Triton's kernel gives way to its plain form."""
    from vllm_omni.model_executor.models.common.snake_activation import SnakeBeta
    from vllm_omni.model_executor.models.qwen3_tts.qwen3_tts_code2wav import Qwen3TTSCode2Wav

    SnakeBeta._triton_kernel = False
    made = Qwen3TTSCode2Wav(vllm_config=config)
    made.load_weights(iter(()))
    made.to(device)
    made.decoder.precompute_snake_caches()
    return made.eval()


def runner(cls: Any, model: Any, config: Any, device: torch.device, requests: list[str]) -> Any:
    """Return a runner of class `cls` with this batch, decoding one token for each request."""
    made = cls.__new__(cls)
    count = len(requests)
    hidden = int(getattr(model, "mtp_hidden_size", 1))

    def buffer(*size: int, dtype: torch.dtype) -> Any:
        return SimpleNamespace(gpu=torch.zeros(size, dtype=dtype).to(device))

    floats = model_dtype(model)
    vars(made).update(
        model=model,
        vllm_config=config,
        model_config=config.model_config,
        speculative_config=None,
        device=device,
        requests={
            key: SimpleNamespace(
                prompt_token_ids=[1, 2], output_token_ids=[3], sampling_params=None, additional_information=None
            )
            for key in requests
        },
        input_batch=SimpleNamespace(
            req_ids=requests,
            req_id_to_index={key: n for n, key in enumerate(requests)},
            num_reqs=count,
            num_computed_tokens_cpu=[2] * count,
            sampling_metadata=SimpleNamespace(no_penalties=True),
            vocab_size=3072,
            set_async_sampled_token_ids=lambda *_: None,
        ),
        model_intermediate_buffer={key: {} for key in requests},
        query_start_loc=SimpleNamespace(cpu=torch.arange(count + 1, dtype=torch.int32)),
        input_ids=buffer(count, dtype=torch.int32),
        inputs_embeds=buffer(count, hidden, dtype=floats),
        positions=torch.zeros(count, dtype=torch.int64).to(device),
        talker_mtp_input_ids=buffer(count, dtype=torch.int32),
        talker_mtp_inputs_embeds=buffer(count, hidden, dtype=floats),
        last_talker_hidden=buffer(count, hidden, dtype=floats),
        text_step=buffer(count, hidden, dtype=floats),
        has_talker_mtp=hasattr(model, "talker_mtp"),
        talker_mtp=getattr(model, "talker_mtp", None),
        supports_mm_inputs=False,
        enable_prompt_embeds=False,
        uses_mrope=False,
        uses_xdrope_dim=0,
        is_pooling_model=False,
        omni_prefix_cache=None,
        sampler=None,
        routed_experts_initialized=False,
        execute_model_state=None,
        kv_connector_output=None,
        _async_chunk=True,
        _request_errors={},
        _omni_num_scheduled_tokens_np=None,
        _omni_query_start_loc_model_kwarg=False,
        _downstream_payload_cache=dict.fromkeys(requests, True),
        _should_accumulate_full_payload_output=lambda: False,
        get_omni_connector_output=lambda: None,
    )
    return made


def model_dtype(model: Any) -> torch.dtype:
    """Return the type of a stage's embeddings."""
    dtype: torch.dtype = getattr(model, "_embedding_dtype", torch.float32)
    return dtype


def scheduled(requests: list[str], tokens: int = 1) -> Any:
    """Return what the scheduler says of a step with `tokens` for each request."""
    return SimpleNamespace(
        num_scheduled_tokens=dict.fromkeys(requests, tokens),
        total_num_scheduled_tokens=tokens * len(requests),
        scheduled_new_reqs=[],
        scheduled_cached_reqs=SimpleNamespace(),
        scheduled_encoder_inputs={},
        scheduled_spec_decode_tokens={},
        finished_req_ids=set(),
    )
