"""Check what Step-Audio-2's speech endpoint makes of a request's fields."""

import asyncio
from types import SimpleNamespace
from typing import Any

from vllm import SamplingParams

DEFAULTS = [SamplingParams(max_tokens=1024), SamplingParams(temperature=0.0, max_tokens=1)]


def _server() -> tuple[Any, list[SamplingParams]]:
    """Return the server, and where the sampling parameters that reach the engine are put."""
    from vllm_omni.entrypoints.openai.serving_speech import OmniOpenAIServingSpeech
    from vllm_omni.entrypoints.openai.tts_adapters import resolve_adapter
    from vllm_omni.entrypoints.openai.tts_adapters.base import SpeechServingContext

    server = OmniOpenAIServingSpeech.__new__(OmniOpenAIServingSpeech)
    passed: list[SamplingParams] = []

    def generate(*, sampling_params_list: list[SamplingParams], **_: Any) -> None:
        passed[:] = sampling_params_list

    server.engine_client = SimpleNamespace(errored=False, default_sampling_params_list=DEFAULTS, generate=generate)
    server.model_config = SimpleNamespace(async_chunk=True)
    server._tts_model_type, server._is_tts = "step_audio2", True
    server._track_ref_audio_artifact_warmup = lambda *_, **__: None
    server._tts_x_vector_only = lambda _: False
    server._build_step_audio2_prompt = lambda _: {"prompt": ""}
    adapter = resolve_adapter("step_audio2")
    assert adapter is not None
    server._get_tts_adapter = lambda: adapter(SpeechServingContext(server=server))
    return server, passed


def _ask(**fields: Any) -> Any:
    """Return the limit that the first stage gets, or what the client is told."""
    from vllm_omni.entrypoints.openai.protocol.audio import OpenAICreateSpeechRequest

    server, passed = _server()
    try:
        asyncio.run(server._prepare_speech_generation(OpenAICreateSpeechRequest(**{"input": "Hello.", **fields})))
    except ValueError as error:
        return str(error)
    return passed[0].max_tokens


def fields() -> dict[str, Any]:
    from vllm_omni.entrypoints.openai.utils import get_supported_speakers_from_hf_config

    voices = get_supported_speakers_from_hf_config(SimpleNamespace(model_type="step_audio_2"))
    server, _ = _server()
    return {
        "no field": _ask(),
        "max_new_tokens": _ask(max_new_tokens=30),
        "max_tokens": _ask(max_tokens=31),
        "no token": _ask(max_new_tokens=0),
        "half a pair": _ask(input="ab\ud800"),
        "default voice": _ask(voice="default"),
        "OpenAI's voice": _ask(voice="Alloy"),
        "unknown voice": str(_ask(voice="nobody")).partition(" Supported")[0],
        "voices, unknown voice tells": str(_ask(voice="nobody")).rpartition("Supported: ")[2].split(", ")
        == sorted(voices),
        "voices listed": sorted(server._load_supported_speakers()) == sorted(voices) and "default" in voices,
        "language": _ask(language="English"),
        "any language": _ask(language="Auto"),
        "several": _ask(ref_audio="data:,", x_vector_only_mode=True, extra_params={"cfg": 1, "top_p": 0.9}),
        "what it follows": _ask(instructions="Slowly.", speed=1.5, seed=1, extra_params={"temperature": 0.5}),
        "defaults are untouched": DEFAULTS[0].max_tokens == 1024 and DEFAULTS[0].temperature == 1.0,
    }


def _chat(**fields: Any) -> Any:
    """Return what reaches the first stage, or what the client is told."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm_omni.entrypoints.openai.serving_chat import OmniOpenAIServingChat

    class ReachedError(Exception):
        """The request was taken: the engine is asked next."""

    server = OmniOpenAIServingChat.__new__(OmniOpenAIServingChat)
    stages = [SimpleNamespace(is_comprehension=True), SimpleNamespace(is_comprehension=False)]
    server.engine_client = SimpleNamespace(
        default_sampling_params_list=DEFAULTS, stage_configs=stages, errored=True, dead_error=ReachedError()
    )
    server._diffusion_mode = False

    async def known(_: Any) -> None:
        return None

    server._check_model = known
    request = ChatCompletionRequest(messages=[{"role": "user", "content": "Hello."}], model="m", **fields)
    try:
        return asyncio.run(server._create_chat_completion(request)).error.message
    except ReachedError:
        params = server._build_sampling_params_list_from_request(request)[0]
        return {name: value for name in LOOKED_AT if (value := getattr(params, name)) != getattr(DEFAULTS[0], name)}


LOOKED_AT = ("max_tokens", "repetition_penalty", "min_p", "temperature")


def chat_fields() -> dict[str, Any]:
    return {
        "max_tokens": _chat(max_tokens=7, temperature=0.5),
        "max_completion_tokens": _chat(max_completion_tokens=8),
        "penalty": _chat(repetition_penalty=1.5, min_p=0.1),
        "OpenAI's defaults": _chat(n=1, logprobs=False, response_format={"type": "text"}, logit_bias={}),
        "several": _chat(
            n=2,
            logprobs=True,
            top_logprobs=3,
            logit_bias={"7": 1},
            bad_words=["seven"],
            allowed_token_ids=[7],
            response_format={"type": "json_object"},
            truncate_prompt_tokens=5,
        ),
        "none": _chat(n=0),
    }
