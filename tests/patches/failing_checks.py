"""Checks that what goes wrong for one request ends that one, in every part that it passes through."""

import asyncio
import functools
from collections import defaultdict
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from vllm import SamplingParams
from vllm.v1.engine import EngineCoreOutputs, FinishReason
from vllm.v1.request import Request, RequestStatus

ROWS = {"one": 3, "two": 4, "three": 2}


def prompt() -> dict[str, Any]:
    """Three requests in one step; the second one's prompt cannot be built, and it is still there in the next step."""
    from vllm_omni.errors import OmniClientError

    failures = {"ours": RuntimeError("no such frame"), "the client's": OmniClientError("too short", status_code=422)}
    return {whose: _prompt(failure) for whose, failure in failures.items()}


def _prompt(failure: Exception) -> dict[str, Any]:
    runner = _runner(failure)
    try:
        first = _step(runner, decode=False)
    except Exception as error:
        return {"step": f"raised {type(error).__name__}"}
    again = _step(runner, decode=True)
    outputs = _schedule(dict(runner._request_errors))
    return {
        "step": "went on",
        "the others' rows": [first[:3].unique().tolist(), first[7:].unique().tolist()],
        "decoded in the next step": again,
        "ended": {key: str(output.finish_reason) for key, output in outputs.items() if output.finish_reason},
        "told": _told(list(outputs.values())),
    }


def _runner(failure: Exception) -> Any:
    """Return a runner with the talker's real preprocess around a prompt builder that fails for the second request."""
    from vllm_omni.model_executor.models.qwen3_tts.qwen3_tts_talker import (
        Qwen3TTSTalkerForConditionalGeneration as Talker,
    )
    from vllm_omni.worker.gpu_model_runner import OmniGPUModelRunner

    def build_prompt_embeds(*, task_type: str, info_dict: dict[str, Any]) -> Any:
        if info_dict["text"] == ["two"]:
            raise failure
        return torch.full((ROWS[info_dict["text"][0]], 8), 7.0), torch.zeros(1, 8), None, None

    talker = SimpleNamespace(
        has_preprocess=True,
        _prompt_builder=SimpleNamespace(build_prompt_embeds=build_prompt_embeds),
        _tts_pad_embed=torch.zeros(1, 8),
        _embedding_dtype=torch.float32,
        talker_config=SimpleNamespace(codec_pad_id=5, num_code_groups=16),
        embed_input_ids=lambda ids: torch.zeros(*ids.shape, 8),
    )
    for name in ("preprocess", "preprocess_failed"):
        if hasattr(Talker, name):
            setattr(talker, name, functools.partial(getattr(Talker, name), talker))
    runner = mock.MagicMock(name="runner")
    runner.supports_mm_inputs = runner.enable_prompt_embeds = runner.uses_mrope = False
    runner.model_config.is_encoder_decoder = False
    runner.uses_xdrope_dim = 0
    runner.model, runner.has_talker_mtp = talker, True
    runner.input_ids.gpu = torch.ones(9, dtype=torch.int32)
    runner.inputs_embeds.gpu = torch.zeros(9, 8)
    runner.input_batch.req_ids = list(ROWS)
    runner.requests = {key: SimpleNamespace(prompt_token_ids=[1] * rows) for key, rows in ROWS.items()}
    runner.model_intermediate_buffer = {key: {"text": [key], "task_type": ["Base"]} for key in ROWS}
    runner._maybe_attach_mimo_audio_req_infos = lambda _, infos, __: infos
    runner._request_errors = {}
    if hasattr(OmniGPUModelRunner, "_preprocess_request"):
        runner._preprocess_request = functools.partial(OmniGPUModelRunner._preprocess_request, runner)
    return runner


def _step(runner: Any, *, decode: bool) -> Any:
    """Run the runner's real `_preprocess`. Return the input embeddings, or which requests the talker decodes."""
    from vllm_omni.worker import gpu_model_runner as module

    counts = dict.fromkeys(ROWS, 1) if decode else ROWS
    starts = [sum(list(counts.values())[:n]) for n in range(len(ROWS) + 1)]
    runner.query_start_loc.cpu = torch.tensor(starts)
    runner.input_batch.num_computed_tokens_cpu = list(ROWS.values()) if decode else [0] * len(ROWS)
    batches: list[int] = []

    def preprocess_decode_batch(*, input_ids: torch.Tensor, req_infos: list[dict[str, Any]]) -> Any:
        batches.extend(info["text"][0] for info in req_infos)
        rows = torch.zeros(len(req_infos), 8)
        return input_ids, rows, rows, rows, [{} for _ in req_infos]

    runner.model.preprocess_decode_batch = preprocess_decode_batch
    for buffer in ("talker_mtp_inputs_embeds", "last_talker_hidden", "text_step"):
        getattr(runner, buffer).gpu = torch.zeros(4, 8)
    runner.talker_mtp_input_ids.gpu = torch.zeros(4, dtype=torch.int32)
    scheduled = SimpleNamespace(num_scheduled_tokens=counts, total_num_scheduled_tokens=sum(counts.values()))
    with mock.patch.object(module, "get_pp_group", return_value=SimpleNamespace(is_first_rank=True)):
        embeds = module.OmniGPUModelRunner._preprocess(runner, scheduled, scheduled.total_num_scheduled_tokens)[1]
    return batches if decode else embeds.clone()


def capped(params: SamplingParams) -> list[Any]:
    """Let a request with these parameters reach its limit. Return how the scheduler ends it, and what is told."""
    outputs = _schedule({}, params=params, at_limit="two")
    return [str(outputs["two"].finish_reason), (getattr(outputs["two"], "error", None) or "")[:24]]


def _schedule(
    errors: dict[str, Any],
    *,
    name: str = "omni_ar_scheduler.OmniARScheduler",
    params: SamplingParams | None = None,
    at_limit: str | None = None,
) -> dict[str, Any]:
    """Give a runner's output to the scheduler's real `update_from_output`. Return what it puts out by request."""
    import importlib

    from vllm_omni.outputs import OmniModelRunnerOutput

    module, _, kind = name.partition(".")
    scheduler_class = getattr(importlib.import_module(f"vllm_omni.core.sched.{module}"), kind)
    scheduler = mock.MagicMock(name="scheduler")
    scheduler.perf_metrics = scheduler.connector = None
    scheduler.kv_transfer_criteria = None
    scheduler.requests = {key: _request(key, params) for key in ROWS}
    scheduler.running = list(scheduler.requests.values())
    scheduler.structured_output_manager.should_advance.return_value = False
    scheduler._process_kv_transfer_trigger.return_value = False

    def update(request: Request, ids: list[int]) -> Any:
        if request.request_id == at_limit:
            request.status = RequestStatus.FINISHED_LENGTH_CAPPED
        return ids, request.request_id == at_limit

    scheduler._update_request_with_output.side_effect = update
    scheduler._handle_stopped_request.return_value = True
    scheduler._free_request.return_value = (None, None)
    scheduler._new_prompt_len_snapshot = {}
    scheduler.finished_req_ids_dict = defaultdict(set)
    scheduler.make_stats.return_value = scheduler.kv_cache_manager.take_events.return_value = None
    scheduler.chunk_transfer_adapter.is_done_receiving_chunks.return_value = False
    output = OmniModelRunnerOutput(
        req_ids=list(ROWS),
        req_id_to_index={key: n for n, key in enumerate(ROWS)},
        sampled_token_ids=[[7]] * 3 if "ar" in module else [],
        prompt_logprobs_dict={},
        multimodal_outputs=[{"model_outputs": torch.zeros(2)}] * 3,
    )
    output.request_errors = errors
    scheduled = mock.MagicMock(num_scheduled_tokens=dict(ROWS), scheduled_spec_decode_tokens={})
    made = scheduler_class.update_from_output(scheduler, scheduled, output)
    return {out.request_id: out for outs in made.values() for out in outs.outputs}


def _request(key: str, params: SamplingParams | None = None) -> Request:
    request = Request(key, [1], params or SamplingParams(), None)
    request.status, request.resumable, request.external_req_id = RequestStatus.RUNNING, False, key
    request.num_in_flight_tokens = 10
    return request


def _told(outputs: list[Any]) -> list[Any]:
    """Pass a stage's outputs to the orchestrator. Return what each client is told, and which requests it aborts."""
    from vllm_omni.engine.orchestrator import Orchestrator

    orchestrator = mock.MagicMock(name="orchestrator")
    orchestrator.request_states = dict.fromkeys(ROWS)
    orchestrator._cfg_tracker.is_companion.return_value = False
    orchestrator._cfg_tracker.cleanup_parent.return_value = []
    orchestrator.output_async_queue, orchestrator._cleanup_request_ids = mock.AsyncMock(), mock.AsyncMock()
    orchestrator._handle_stage_error = functools.partial(Orchestrator._handle_stage_error, orchestrator)
    raw = EngineCoreOutputs(outputs=outputs)
    asyncio.run(Orchestrator._handle_failed_raw_outputs(orchestrator, 0, raw))
    assert all(output.finish_reason in (None, FinishReason.ERROR) for output in outputs)
    messages = [call.args[0] for call in orchestrator.output_async_queue.put.call_args_list]
    aborted = [call.args[0] for call in orchestrator._cleanup_request_ids.call_args_list if call.kwargs["abort"]]
    return [[message.request_id, message.error, message.status_code] for message in messages] + aborted


def chunk() -> dict[str, Any]:
    """A chunk that cannot be made, on its way to stage 1; and frames that stage 1 cannot use."""
    sent = _send_with_a_fault()
    received, prompt = _receive(sent[-1])
    ended = _schedule({"two": ("bad frames", None)}, name="omni_generation_scheduler.OmniGenerationScheduler")
    decoded = _decode()
    return {
        "sent": [_mark(payload) for payload in sent],
        "received": [received.get("meta", {}).get("error"), prompt],
        "ended": {key: str(output.finish_reason) for key, output in ended.items() if output.finish_reason},
        **decoded,
    }


def _mark(payload: Any) -> list[Any]:
    error = getattr(payload.meta, "error", None)
    return [bool(payload.meta.finished), error is not None]


def _adapter() -> Any:
    from vllm_omni.distributed.omni_connectors.transfer_adapter.chunk_transfer_adapter import OmniChunkTransferAdapter

    adapter = OmniChunkTransferAdapter.__new__(OmniChunkTransferAdapter)
    for name in ("put_req_chunk", "get_req_chunk", "ramp_chunk_count", "requests_num_chunks_sent"):
        setattr(adapter, name, defaultdict(int))
    adapter.code_prompt_token_ids, adapter.request_ids_mapping, adapter.model_mode = {}, {}, "generation"
    adapter._failed_sends, adapter._finished_load_reqs = set(), set()
    adapter._missing_since = {}
    adapter.upstream_exhausted_requests, adapter.segment_finished_requests = set(), set()
    adapter.cleanup = lambda *_: None
    return adapter


def _send_with_a_fault() -> list[Any]:
    """Let the second of four chunks fail to be made. Return what goes to the next stage."""
    from vllm_omni.data_entry_keys import CodesStruct, OmniPayloadStruct

    adapter, sent = _adapter(), []
    numbers = iter(range(4))

    def process(**_: Any) -> Any:
        if next(numbers) == 1:
            raise ValueError("ragged frames")
        return OmniPayloadStruct(codes=CodesStruct(audio=torch.zeros(16, dtype=torch.long)))

    adapter.custom_process_next_stage_input_func = process
    adapter.connector = SimpleNamespace(stage_id=0, put=lambda data, **_: (sent.append(data), (True, 1, {}))[1])
    request = _request("r")
    for n in range(4):
        if n == 3:
            request.status = RequestStatus.FINISHED_STOPPED
        flags = {"is_finished": n == 3, "is_segment_finished": False}
        adapter._send_single_request({"multimodal_output": None, "request": request, "num_tokens": n, **flags})
    return sent


def _receive(payload: Any) -> Any:
    from vllm_omni.distributed.omni_connectors.utils.serialization import OmniSerializer

    adapter = _adapter()
    arrived = OmniSerializer.deserialize(OmniSerializer.serialize(payload))
    adapter.connector = SimpleNamespace(stage_id=1, get=lambda *_: (arrived, 1))
    request = _request("r")
    request.additional_information = None
    adapter._poll_single_request(request)
    return request.additional_information, request.prompt_token_ids


def _decode() -> dict[str, Any]:
    """Decode a good request beside one with torn frames, one whose reference is gone and one without frames."""
    from speech_server import CHECKPOINT
    from vllm_omni.model_executor.models.qwen3_tts.qwen3_tts_code2wav import Qwen3TTSCode2Wav

    torch.manual_seed(0)
    config = SimpleNamespace(model_config=SimpleNamespace(model=str(CHECKPOINT), stage_connector_config=None))
    stage = Qwen3TTSCode2Wav(vllm_config=config)
    good = torch.arange(32) % 7
    lost = {"meta": {"ref_context_size": 3, "ref_context_request_id": "gone", "ref_context_included": False}}
    parts = [good, good[:17], good, torch.zeros(1, dtype=torch.long)]

    def forward(parts: list[torch.Tensor], infos: list[dict[str, Any]]) -> Any:
        counts = [len(part) for part in parts]
        output = stage.forward(torch.cat(parts), None, runtime_additional_information=infos, seq_token_counts=counts)
        return output.multimodal_outputs["model_outputs"]

    (alone,) = forward([good], [{}])
    try:
        together = forward(parts, [{}, {}, lost, {}])
    except ValueError as error:
        return {"decoding": f"raised {type(error).__name__}"}
    return {
        "decoding": "went on",
        "samples": [len(wave) for wave in together],
        "same as alone": torch.allclose(together[0], alone, atol=1e-4),
        "failed": list(getattr(stage, "request_errors", {})),
    }


def told() -> dict[str, Any]:
    """Let the engine fail before its first sound, after it, and make none at all; in each form of answer."""
    from vllm_omni.errors import OmniClientError

    ends: dict[str, list[Any]] = {
        "fails": [RuntimeError("stage 0 failed")],
        "refuses": [OmniClientError("too short", status_code=422)],
        "says nothing": [],
        "an empty sound": [_sound(0)],
        "fails after a sound": [_sound(960), RuntimeError("stage 1 failed")],
        "speaks": [_sound(960)],
    }
    forms = {"plain": {}, "raw": {"stream_format": "audio", "response_format": "pcm"}, "events": {"stream": True}}
    return {
        name: {form: asyncio.run(_answer(outputs, **fields)) for form, fields in forms.items()}
        for name, outputs in ends.items()
    }


def _sound(samples: int) -> Any:
    audio = {"audio": [torch.zeros(samples)], "sr": [torch.tensor(24000)]}
    return SimpleNamespace(multimodal_output=audio, outputs=[], finished=True)


async def _answer(outputs: list[Any], **fields: Any) -> str:
    from speech_server import server
    from vllm_omni.entrypoints.openai.protocol.audio import OpenAICreateSpeechRequest

    async def generate() -> Any:
        for output in outputs:
            if isinstance(output, Exception):
                raise output
            yield output

    made = server(kind="custom_voice", speakers={"vivian"})
    made._check_model = mock.AsyncMock(return_value=None)
    made.engine_client.generate = lambda **_: generate()
    request = OpenAICreateSpeechRequest(input="Hello there.", **fields)
    answer = await made.create_speech(request)
    if hasattr(answer, "error"):
        return f"{answer.error.code} {answer.error.type}: {answer.error.message}"
    if hasattr(answer, "body"):
        return f"200, {len(answer.body)} bytes"
    parts = []
    try:
        async for part in answer.body_iterator:
            parts.append(part if isinstance(part, str) else f"{len(part)} bytes")
    except Exception:
        return f"200, {len(parts)} parts, then broken"
    if fields.get("stream"):
        return "200, " + ", ".join(part.split()[1].rpartition(".")[2] for part in parts)
    return f"200, {len(parts)} parts"
