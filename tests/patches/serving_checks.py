"""Check that a request's seed travels: both endpoints, and the runner of the last stage."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any
from unittest import mock

from vllm import SamplingParams


def seed() -> dict[str, Any]:
    return {
        "speech": _speech(5),
        "speech without": _speech(None),
        "chat": _chat(5),
        "chat without": _chat(None),
        "runner": _runner(),
    }


def _defaults() -> list[SamplingParams]:
    return [SamplingParams(temperature=0.7, seed=42), SamplingParams(temperature=0.0, seed=43)]


def _speech(wanted: int | None) -> list[int | None]:
    from vllm_omni.entrypoints.openai.protocol.audio import OpenAICreateSpeechRequest
    from vllm_omni.entrypoints.openai.serving_speech import OmniOpenAIServingSpeech

    server = OmniOpenAIServingSpeech.__new__(OmniOpenAIServingSpeech)
    passed: list[SamplingParams] = []
    defaults = _defaults()
    server.engine_client = SimpleNamespace(
        errored=False,
        default_sampling_params_list=defaults,
        generate=lambda *, sampling_params_list, **_: passed.extend(sampling_params_list),
    )
    server.model_config = SimpleNamespace(async_chunk=True)
    server._tts_model_type = "step_audio2"
    server._is_tts = True
    server._track_ref_audio_artifact_warmup = lambda *_, **__: None
    server._tts_x_vector_only = lambda _: False
    prepared = SimpleNamespace(prompt={}, tts_params={}, model_type="step_audio2", warmup_artifact_key=None)

    async def build(*_: Any) -> Any:
        return prepared

    server._get_tts_adapter = lambda: SimpleNamespace(validate=lambda _: None, build=build)
    request = OpenAICreateSpeechRequest(input="Hello.", voice="default", seed=wanted)
    asyncio.run(server._prepare_speech_generation(request))
    assert [p.seed for p in defaults] == [42, 43]  # they are shared by all requests
    return [p.seed for p in passed]


def _chat(wanted: int | None) -> list[int | None]:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm_omni.entrypoints.openai.serving_chat import OmniOpenAIServingChat

    server = OmniOpenAIServingChat.__new__(OmniOpenAIServingChat)
    defaults = _defaults()
    server.engine_client = SimpleNamespace(
        default_sampling_params_list=defaults,
        stage_configs=[SimpleNamespace(is_comprehension=True), SimpleNamespace(is_comprehension=False)],
    )
    given = {} if wanted is None else {"seed": wanted}
    request = ChatCompletionRequest(messages=[{"role": "user", "content": "Hello."}], model="m", **given)
    passed = server._build_sampling_params_list_from_request(request)
    assert [p.seed for p in defaults] == [42, 43]
    return [p.seed for p in passed]


def _runner() -> dict[str, Any]:
    """Run the real `execute_model` with everything around it replaced, and look at what the model gets."""
    from vllm_omni.worker import gpu_generation_model_runner as module

    runner = mock.MagicMock(name="runner")
    del runner._omni_connector
    runner.execute_model_state = None
    runner.routed_experts_initialized = False
    runner.speculative_config = None
    runner.input_batch.req_ids = ["one", "two"]
    runner.input_batch.num_reqs = 2
    runner.requests = {
        "one": SimpleNamespace(sampling_params=SamplingParams(temperature=0.0, seed=5)),
        "two": SimpleNamespace(sampling_params=SamplingParams(temperature=0.0)),
    }
    runner.model = SimpleNamespace(requires_request_ids=True, requires_request_seeds=True)
    runner.cascade_attn_enabled = False
    runner.cache_config.kv_sharing_fast_prefill = False
    runner.kv_cache_config.kv_cache_groups = []
    runner.attn_groups = []
    runner._prepare_inputs.return_value = (None, None)
    batch = SimpleNamespace(num_tokens=3, num_reqs=2)
    runner._determine_batch_execution_and_padding.return_value = (None, batch, False, None, None)
    runner._get_slot_mappings.return_value = (None, None)
    runner._build_attention_metadata.return_value = (None, None)
    runner._preprocess.return_value = (None, None, None, None, {}, None)
    runner.extract_multimodal_outputs.return_value = (None, {})
    scheduled = mock.MagicMock(name="scheduler_output")
    scheduled.num_scheduled_tokens = {"one": 1, "two": 2}
    scheduled.total_num_scheduled_tokens = 3
    scheduled.finished_req_ids = set()
    scheduled.scheduled_spec_decode_tokens = {}
    scheduled.scheduled_encoder_inputs = {}
    with (
        mock.patch.object(module, "set_forward_context", return_value=contextlib.nullcontext()),
        mock.patch.object(module, "maybe_create_ubatch_slices", return_value=(None, None)),
        mock.patch.object(module, "has_kv_transfer_group", return_value=False),
        mock.patch.object(module, "has_ec_transfer", return_value=False),
    ):
        module.GPUGenerationModelRunner.execute_model(runner, scheduled)
    passed = runner._run_generation_model.call_args.kwargs["model_kwargs"]
    return {key: passed[key] for key in ("request_ids", "request_seeds") if key in passed}
