"""Check what of the API's surface reaches a model: routes, sampling parameters, and a request that cannot be sent."""

import asyncio
import functools
import json
from types import SimpleNamespace
from typing import Any
from unittest import mock

from vllm import SamplingParams


def routes() -> dict[str, Any]:
    """Build the app as the server does; return what each pipeline leaves open, and how a closed route answers."""
    from vllm_omni.config.endpoint_policy import shutdown_unsupported_routes
    from vllm_omni.model_executor.models.qwen3_tts.pipeline import QWEN3_TTS_PIPELINE
    from vllm_omni.model_executor.models.step_audio2.pipeline import STEP_AUDIO2_ASR_PIPELINE, STEP_AUDIO2_PIPELINE

    pipelines = {"tts": QWEN3_TTS_PIPELINE, "speech": STEP_AUDIO2_PIPELINE, "asr": STEP_AUDIO2_ASR_PIPELINE}
    facts: dict[str, Any] = {}
    for name, pipeline in pipelines.items():
        app = _app()
        shutdown_unsupported_routes(app, pipeline.endpoint_restrictions)
        facts[name] = sorted({route.path for route in app.routes if _reaches_a_model(route)})
        facts[f"{name}, closed"] = _post(app, "/v1/completions")
        facts[f"{name}, server"] = "/health" in {route.path for route in app.routes}
    return facts


def _app() -> Any:
    from vllm.entrypoints.openai.api_server import build_app
    from vllm.entrypoints.openai.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm_omni.entrypoints.openai import api_server

    app = build_app(make_arg_parser(FlexibleArgumentParser()).parse_args(["--model", "m"]), ("generate",))
    api_server._remove_route_from_app(app, "/v1/chat/completions", {"POST"})
    app.include_router(api_server.router)
    return app


def _reaches_a_model(route: Any) -> bool:
    handler = getattr(getattr(route, "endpoint", None), "__name__", "")
    return route.path.startswith(("/v1/", "/inference", "/generative", "/tok", "/detok", "/invo", "/scale")) and (
        handler not in ("rejection_handler", "show_available_models")
    )


def bodies() -> dict[str, Any]:
    """Return how the routes that take JSON answer to what is no object."""
    app = _app()
    paths = ("/v1/chat/completions", "/v1/audio/speech", "/v1/audio/speech/batch")
    return {
        path: [_answer(app, path, body).status_code for body in ([1], "x", 5, None, {"structured_outputs": 2})]
        for path in paths
    }


def batch() -> dict[str, Any]:
    """Ask for two items of which none, one or both fail, as the client's mistake or as the engine's failure."""
    from vllm_omni.entrypoints.openai.serving_speech import OmniOpenAIServingSpeech

    async def sound(request: Any, **_: Any) -> tuple[str, str]:
        if request.input == "broken":
            raise RuntimeError("stage 0 failed")
        return "AAAA", "audio/wav"

    server = OmniOpenAIServingSpeech.__new__(OmniOpenAIServingSpeech)
    server._diffusion_mode, server._batch_max_items = False, 32
    server.engine_client = SimpleNamespace(errored=False)
    server._check_model = mock.AsyncMock(return_value=None)
    server._validate_tts_request = lambda request: None if request.input else "nothing to speak"
    server._generate_audio_bytes = sound
    app = _app()
    app.state.openai_serving_speech, app.state.enable_server_load_tracking = server, False
    facts = {}
    for inputs in (("a", "b"), ("a", ""), ("a", "broken"), ("", "broken"), ("", "")):
        answer = _answer(app, "/v1/audio/speech/batch", {"items": [{"input": text} for text in inputs]})
        told = answer.json()
        error = told.get("error", {}).get("message")
        facts["+".join(inputs)] = [answer.status_code, error, sum("audio_data" in item for item in told["results"])]
    return facts


def _answer(app: Any, path: str, body: Any) -> Any:
    import httpx

    async def post() -> Any:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport) as client:
            text = {"content": json.dumps(body), "headers": {"content-type": "application/json"}}
            return await client.post(f"http://server{path}", **text)

    return asyncio.run(post())


def _post(app: Any, path: str) -> list[Any]:
    answer = _answer(app, path, {"model": "m", "prompt": "Hello."})
    error = answer.json().get("error", {}) if answer.status_code == 404 else {}
    return [answer.status_code, error.get("type"), "it serves: POST /v1/" in error.get("message", "")]


def submission() -> dict[str, Any]:
    """Hand three requests to the loop, the second with what no message can hold, and stop it."""
    from vllm_omni.engine.messages import ShutdownRequestMessage
    from vllm_omni.engine.orchestrator import Orchestrator

    taken: list[str] = []

    async def add(message: Any) -> None:
        if message.request_id != "one":
            raise message.fault
        taken.append(message.request_id)

    requests = [
        SimpleNamespace(type="add_request", request_id="two", fault=OverflowError("can't serialize ints > 2**64 - 1")),
        SimpleNamespace(type="streaming_update", request_id="three", fault=RuntimeError("no such stage")),
        SimpleNamespace(type="add_request", request_id="one"),
        ShutdownRequestMessage(),
    ]
    loop = mock.MagicMock(name="orchestrator")
    loop.request_async_queue.get = mock.AsyncMock(side_effect=requests)
    loop.duplex_control_plane, loop.stage_pools = None, []
    loop._handle_add_request = loop._handle_streaming_update = add
    loop._cfg_tracker.is_companion.return_value = False
    loop._cfg_tracker.cleanup_parent.return_value = []
    loop.output_async_queue, loop._cleanup_request_ids = mock.AsyncMock(), mock.AsyncMock()
    loop._handle_stage_error = functools.partial(Orchestrator._handle_stage_error, loop)
    if hasattr(Orchestrator, "_submitting"):
        loop._submitting = functools.partial(Orchestrator._submitting, loop)
    asyncio.run(Orchestrator._request_handler(loop))
    told = [call.args[0] for call in loop.output_async_queue.put.call_args_list]
    return {"taken": taken, "told": [[message.request_id, message.status_code] for message in told]}


def parameters() -> dict[str, Any]:
    """Give the orchestrator a request whose parameters contradict each other, and one whose do not."""
    from vllm_omni.engine.orchestrator import Orchestrator

    def submitted(params: SamplingParams) -> str:
        loop = mock.MagicMock(name="orchestrator")
        loop.stage_pools = [mock.AsyncMock(name="pool")]
        loop.async_chunk = False
        message = mock.MagicMock(
            request_id="one", sampling_params_list=[params], final_stage_id=0, final_output_stage_ids=[0]
        )
        message.request_timestamp = message.enqueue_ts = message.preprocess_ms = 0.0
        try:
            asyncio.run(Orchestrator._handle_add_request(loop, message))
        except ValueError as error:
            return str(error)
        return "submitted" if loop.stage_pools[0].submit_initial.await_count else "lost"

    whole, torn = SamplingParams(max_tokens=2, min_tokens=2), SamplingParams(max_tokens=2, min_tokens=2)
    torn.max_tokens = 1
    return {"whole": submitted(whole), "torn": submitted(torn)}


BAD: dict[str, Any] = {
    "a word": [{"max_tokens": "x"}],
    "a word for the seed": [{"seed": "x"}],
    "below": [{"max_tokens": -1}],
    "unknown": [{"nope": 1}],
    "the engine's own": [{"output_kind": 0}],
    "not followed": [{}, {"logprobs": 1}],
    "no list": {"max_tokens": 1},
    "no object": [1],
}


def sampling_params() -> dict[str, Any]:
    """Return what becomes of parameters as a client may send them."""
    from vllm_omni.entrypoints.openai.serving_chat import OmniOpenAIServingChat

    server = OmniOpenAIServingChat.__new__(OmniOpenAIServingChat)
    stages = [SimpleNamespace(stage_type="llm")] * 2
    server.engine_client = SimpleNamespace(
        stage_configs=stages, default_sampling_params_list=[SamplingParams(), SamplingParams(max_tokens=9)]
    )

    def taken(given: Any) -> str:
        try:
            server._to_sampling_params_list(given)
        except ValueError:
            return "refused"
        except Exception as error:
            return f"raised {type(error).__name__}"
        return "taken"

    good = server._to_sampling_params_list([{"max_tokens": 5, "temperature": 1, "stop": ["a"], "seed": 3}])
    return {
        "good": [[params.max_tokens, params.temperature, params.stop, params.seed] for params in good],
        **{name: taken(given) for name, given in BAD.items()},
    }
