"""Check what two stages keep of requests that end early: their two adapters, in one process, over real segments."""

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from vllm.v1.request import RequestStatus

SEGMENTS = Path("/dev/shm")  # where POSIX shared memory is
SECONDS = 5.0  # after which what has not happened does not happen


class Pair:
    """A sender that cuts a chunk from whatever it is given, and a receiver that nobody takes chunks from."""

    def __init__(self) -> None:
        self.sender, self.receiver = _adapter(0), _adapter(1)
        self.sender.custom_process_next_stage_input_func = _chunk
        self.requests: dict[str, Any] = {}

    def add(self, name: str, *, final_stage: int | None = None) -> Any:
        request_id = f"check-{os.getpid()}-{name}"
        info = None if final_stage is None else {"omni_final_stage_id": final_stage}
        request = SimpleNamespace(request_id=request_id, external_req_id=request_id, additional_information=info)
        request.status, request.resumable = RequestStatus.RUNNING, False
        request.num_tokens = request.num_computed_tokens = request.num_output_placeholders = 0
        request.prompt_token_ids = []
        request.is_finished = lambda: RequestStatus.is_finished(request.status)
        self.requests[request_id] = request
        return request

    def send(self, request: Any, chunks: int) -> None:
        for _ in range(chunks):
            request.num_tokens += 1
            request.num_computed_tokens += 1
            self.sender.save_async({"frame": request.num_tokens}, request)
        _until(lambda: self.sender.put_req_chunk.get(request.external_req_id) == chunks)

    def finish(self, request: Any) -> None:
        request.status = RequestStatus.FINISHED_STOPPED
        request.num_computed_tokens = request.num_tokens  # the receiver, whose request this is too, sets it to 0
        self.sender.save_async({"frame": 0}, request)

    def receive(self, request: Any) -> bool:
        """Let the receiver wait for a chunk, and tell whether one came, or what stands for it."""
        self.receiver.load_async(request)
        return self.received(request)

    def received(self, request: Any) -> bool:
        arrived = self.receiver._finished_load_reqs
        _until(lambda: request.request_id in arrived)
        came = request.request_id in arrived
        arrived.discard(request.request_id)
        return came

    def abort(self, request: Any, *adapters: Any) -> None:
        for adapter in adapters or (self.sender, self.receiver):
            # Each stage has requests of its own; here they are one object.
            status, request.status = request.status, RequestStatus.RUNNING
            adapter.finish_requests(request.request_id, RequestStatus.FINISHED_ABORTED, self.requests)
            request.status = status
        request.status = RequestStatus.FINISHED_ABORTED

    def close(self) -> None:
        for adapter in (self.sender, self.receiver):
            adapter.stop_event.set()
            adapter.connector.close()


def _adapter(stage: int) -> Any:
    from vllm_omni.distributed.omni_connectors.transfer_adapter.chunk_transfer_adapter import OmniChunkTransferAdapter

    model = SimpleNamespace(
        stage_connector_config={"name": "SharedMemoryConnector", "extra": {"stage_id": stage}},
        worker_type="generation" if stage else "ar",
        custom_process_next_stage_input_func=None,
        stage_id=stage,
    )
    return OmniChunkTransferAdapter(
        SimpleNamespace(model_config=model, scheduler_config=SimpleNamespace(max_num_seqs=4))
    )


def _chunk(transfer_manager: Any, multimodal_output: Any, request: Any, is_finished: bool) -> Any:
    import torch
    from vllm_omni.data_entry_keys import CodesStruct, MetaStruct, OmniPayloadStruct

    transfer_manager.code_prompt_token_ids[request.external_req_id].append([1])
    return OmniPayloadStruct(codes=CodesStruct(audio=torch.ones(3, dtype=torch.long)), meta=MetaStruct())


def _until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not done() and time.monotonic() < end:
        time.sleep(0.02)


def _left() -> list[str]:
    """Return the names of the segments and lock files of this process that are plain names."""
    return sorted(file.name for file in SEGMENTS.iterdir() if f"check-{os.getpid()}" in file.name)


def _kept(adapter: Any) -> int:
    names = ("put_req_chunk", "get_req_chunk", "code_prompt_token_ids", "request_payload", "requests_num_chunks_sent")
    names += (
        "ramp_chunk_count",
        "_pending_load_reqs",
        "_draining",
        "request_ids_mapping",
        "_upstream_ended",
        "_missing_since",
    )
    return sum(len(getattr(adapter, name, ())) for name in names)


def aborted() -> dict[str, Any]:
    """Abort requests at each point of their way; and one in its first stage alone, as a stop string does."""
    pair = Pair()
    try:
        before, unread, half, done, failed = (pair.add(name) for name in ("before", "unread", "half", "done", "failed"))
        pair.send(unread, 3)
        pair.send(half, 3)
        pair.receive(half)
        pair.send(failed, 3)
        pair.receive(failed)
        pair.receiver.cleanup(failed.request_id, failed.external_req_id)  # in the second stage: the first is aborted
        pair.abort(failed, pair.sender)
        pair.send(done, 3)
        pair.finish(done)
        _until(lambda: done.external_req_id not in pair.sender.put_req_chunk)
        for request in (before, unread, half):
            pair.abort(request)
        pair.abort(done, pair.receiver)
        _until(lambda: not _left() and not _kept(pair.sender) + _kept(pair.receiver))
        facts = {"files": len(_left()), "sender": _kept(pair.sender), "receiver": _kept(pair.receiver)}
        stopped = pair.add("stopped")
        pair.send(stopped, 1)
        pair.abort(stopped, pair.sender)
        for _ in range(2):
            pair.receive(stopped)
        return facts | {"a stop string ends both": stopped.request_id in pair.receiver.upstream_exhausted_requests}
    finally:
        pair.close()


def text_alone() -> dict[str, Any]:
    """End a request without a second stage, one with one, and one whose final stage is not told."""
    pair = Pair()
    try:
        pair.abort(pair.add("aborted", final_stage=0), pair.sender)
        for name, final_stage in (("text", 0), ("sound", 1), ("unknown", None)):
            pair.finish(pair.add(name, final_stage=final_stage))

        def sent() -> list[str]:
            return [name.rsplit("-", 1)[1] for name in _left() if name.startswith("check")]

        _until(lambda: "unknown_0_0" in sent())
        return {"sent": sent()}
    finally:
        pair.close()


def forgotten() -> dict[str, Any]:
    """Put and read 1,000 segments, and end 1,000 requests."""
    pair = Pair()
    try:
        put, get = pair.sender.connector, pair.receiver.connector
        for number in range(1000):
            key = f"check-{os.getpid()}-{number}"
            put.put("0", "1", key, {"number": number})
            assert get.get("0", "1", key)[0] == {"number": number}
            pair.receiver.cleanup_receiver(key)
        _until(lambda: not pair.receiver._cancelled_load_reqs)
        return {"names": len(put._pending_keys) <= 256, "ids": len(pair.receiver._cancelled_load_reqs)}
    finally:
        pair.close()


def lost() -> dict[str, Any]:
    """Send two chunks while there is no room for the second, and one into a folder that is full."""
    from vllm_omni.distributed.omni_connectors.transfer_adapter import chunk_transfer_adapter as module

    pair = Pair()
    try:
        request = pair.add("lost")
        pair.send(request, 1)
        put = pair.sender.connector.put
        full = mock.patch.object(os, "posix_fallocate", side_effect=OSError(errno.ENOSPC, "full"))
        with full:
            refused = not put("0", "1", f"check-{os.getpid()}-full", [0])[0]

        def without_room(*, data: Any, **way: Any) -> Any:
            return put(data=data, **way) if data.codes is None else (False, 0, None)

        pair.sender.connector.put = without_room
        with mock.patch.object(module, "PUT_SECONDS", 0.3, create=True):
            pair.sender.save_async({"frame": 2}, request)
            _until(lambda: not pair.sender.put_req_chunk)
        told = pair.receiver.connector.get("0", "1", f"{request.request_id}_0_1")
        return {"refused": refused, "told": told and "could not be sent" in told[0]["meta"]["error"]}
    finally:
        pair.close()


def missing() -> dict[str, Any]:
    """Take the second of three chunks away, and tell the receiver only later that the sender has ended the request."""
    pair = Pair()
    pair.receiver.LOST_SECONDS = 0.2
    try:
        request, queued = pair.add("missing"), pair.add("queued")
        pair.send(request, 3)
        for file in SEGMENTS.glob(f"*{request.request_id}_0_1*"):
            file.unlink()
        facts: dict[str, Any] = {"first": pair.receive(request)}
        pair.receiver.load_async(request)
        pair.receiver.load_async(queued)  # the sender has not begun with it
        time.sleep(1.0)
        facts["before its end"] = request.request_id in pair.receiver._finished_load_reqs
        pair.finish(request)
        getattr(pair.receiver, "upstream_ended", lambda _: None)(request.request_id)
        facts["after its end"] = pair.received(request)
        facts["told"] = request.additional_information.get("meta", {}).get("error")
        facts["queued"] = queued.request_id in pair.receiver._finished_load_reqs
        pair.receiver.cleanup(request.request_id, request.external_req_id)
        pair.abort(queued)
        _until(lambda: not _left() and not _kept(pair.receiver))
        return facts | {"files": len(_left()), "receiver": _kept(pair.receiver)} | ends_told()
    finally:
        pair.close()


def names() -> dict[str, Any]:
    """Send a chunk under what clients may call their requests."""
    sender, receiver = _adapter(0).connector, _adapter(1).connector
    plain = f"check-{os.getpid()}"
    asked = {
        "plain": plain,
        "a folder": f"{plain}/x",
        "another folder": f"x/../../tmp/{plain}",
        "long": f"{plain}{'x' * 300}",
        "spaces": f"{plain} \n",
        "dots": "..",
    }
    opened: list[str] = []
    original = open

    def watched(file: Any, *arguments: Any, **options: Any) -> Any:
        opened.append(str(file))
        return original(file, *arguments, **options)

    arrived = {}
    with mock.patch("builtins.open", watched):
        for name, key in asked.items():
            sender.put("0", "1", f"{key}_0_0", {"name": name})
            result = receiver.get("0", "1", f"{key}_0_0")
            arrived[name] = result is not None and result[0] == {"name": name}
    outside = [file for file in opened if "lockfile" in file and Path(os.path.normpath(file)).parent != SEGMENTS]
    return arrived | {"opened outside": len(outside), "left": len(_left())}


def gauges() -> dict[str, Any]:
    """Two requests: one ends well while the other runs, then the other's client leaves."""
    import asyncio

    from vllm_omni.entrypoints import omni_base
    from vllm_omni.entrypoints.async_omni import AsyncOmni
    from vllm_omni.entrypoints.client_request_state import ClientRequestState
    from vllm_omni.metrics.prometheus import OmniRequestCounter

    engine = mock.MagicMock(name="engine", num_stages=1, async_chunk=True)
    engine._running_counter = OmniRequestCounter()
    engine.abort_async = mock.AsyncMock()
    with (
        mock.patch.object(omni_base, "AsyncOmniEngine", return_value=engine),
        mock.patch.object(omni_base, "omni_snapshot_download", str),
    ):
        server = AsyncOmni.__new__(AsyncOmni)
        omni_base.OmniBase.__init__(server, "m", log_stats=True)
    for name in ("ends", "leaves"):
        state = ClientRequestState(request_id=name, external_request_id=name)
        state.metrics = mock.MagicMock(e2e_done={name})
        server.request_states[name] = state
        engine._running_counter.increment()
    engine._running_counter.decrement()
    server._log_summary_and_cleanup("ends")
    facts = {"one runs": _gauges()}
    asyncio.run(server._abort(["leaves"]))
    engine._running_counter.decrement()
    return facts | {"none runs": _gauges()}


def ends_told() -> dict[str, Any]:
    """Let stage 0 end a request that goes on and one that does not, and see what stage 1 is told and takes note of."""
    import asyncio

    from vllm_omni.engine import orchestrator as module
    from vllm_omni.engine.stage_engine_core_proc import StageEngineCoreProc

    core: Any = StageEngineCoreProc.__new__(StageEngineCoreProc)
    core.scheduler = mock.MagicMock(requests={"spoken": None})
    told: list[str] = []

    async def call_utility_async(method: str, request_id: str) -> None:
        told.append(f"{method} {request_id}")
        getattr(core, method)(request_id)

    pools = [mock.MagicMock(final_output=False), mock.MagicMock()]
    pools[1].get_bound_client.return_value = SimpleNamespace(call_utility_async=call_utility_async)
    loop: Any = mock.MagicMock(stage_pools=pools, async_chunk=True, _pd_pair=None, _telling=set())
    loop._cfg_tracker.is_companion.return_value = loop._is_duplex_session_request.return_value = False
    loop._duplex_output_decision.return_value, loop._comes_early.return_value = None, False
    loop._tell_upstream_ended = lambda *told: module.Orchestrator._tell_upstream_ended(loop, *told)

    async def end(request_id: str, final_stage: int) -> None:
        state = SimpleNamespace(final_stage_id=final_stage, stage_submit_ts={0: 0.0, 1: 0.0})
        state.streaming, state.final_output_stage_ids = SimpleNamespace(enabled=False), set()
        state.early_outputs = []
        output = SimpleNamespace(request_id=request_id, finished=True)
        await module.Orchestrator._route_output(loop, 0, 0, output, state, None)
        await asyncio.gather(*loop._telling)

    for request_id, final_stage in (("spoken", 1), ("written", 0), ("gone", 1)):
        asyncio.run(end(request_id, final_stage))
    noted = [call.args[0] for call in core.scheduler.chunk_transfer_adapter.upstream_ended.call_args_list]
    return {"stage 1 is told": told, "and takes note of": noted}


def parked() -> dict[str, Any]:
    """Let the receiver forget a request whose client has left while another waits for its chunk; name who moves it."""
    moved: set[str] = set()

    class Queue(deque[Any]):
        def popleft(self) -> Any:
            receiving = threading.current_thread() is pair.receiver.recv_thread
            moved.add("receiver" if receiving else "scheduler")
            return super().popleft()

    def movers(forget: Callable[[], None]) -> list[str]:
        moved.clear()
        pair.receiver.waiting_for_chunk_running_requests = Queue([waits])
        forget()
        # Its deque is empty before the last request of it is forgotten.
        _until(lambda: not pair.receiver._ended_early)
        time.sleep(0.2)
        assert list(pair.receiver.waiting_for_chunk_running_requests) == [waits]
        return sorted(moved)

    pair = Pair()
    waits, leaves = pair.add("waits"), pair.add("leaves")

    def leave() -> None:
        pair.receiver._ended_early.append((leaves.request_id, leaves.external_req_id, 0))

    try:
        return {
            "a client leaves": movers(leave),
            "the scheduler's own": movers(lambda: pair.receiver.cleanup_receiver(leaves.request_id)),
        }
    finally:
        pair.close()


def last_words() -> dict[str, list[str]]:
    """Let both stages end requests that asked for one modality or two, read in either order."""
    import asyncio

    from vllm_omni.engine.orchestrator import Orchestrator, OrchestratorRequestState

    def told(modalities: set[int], order: tuple[int, ...]) -> list[str]:
        loop: Any = Orchestrator.__new__(Orchestrator)
        loop.stage_pools = [mock.MagicMock(final_output=True), mock.MagicMock(final_output=True)]
        loop.async_chunk, loop._pd_pair, loop._cfg_tracker, loop._telling = True, None, mock.MagicMock(), set()
        loop._cfg_tracker.is_companion.return_value, loop._cfg_tracker.cleanup_parent.return_value = False, []
        loop.output_async_queue, loop._pd_kv_params = mock.AsyncMock(), {}
        loop._duplex_output_decision = mock.Mock(return_value=None)
        loop._tell_upstream_ended = mock.Mock()
        state = OrchestratorRequestState("one", sampling_params_list=[None, None], final_stage_id=1)
        state.final_output_stage_ids, state.stage_submit_ts = modalities, {0: 0.0, 1: 0.0}
        loop.request_states = {"one": state}

        async def end() -> None:
            for stage in order:
                output = SimpleNamespace(request_id="one", finished=True, error=None)
                await loop._handle_processed_outputs(stage, 0, [output])

        asyncio.run(end())
        messages = [call.args[0] for call in loop.output_async_queue.put.call_args_list]
        return [f"{message.stage_id} {'ends it' if message.finished else 'goes on'}" for message in messages]

    return {
        "audio, in order": told({1}, (0, 1)),
        "audio, early": told({1}, (1, 0)),
        "both, early": told({0, 1}, (1, 0)),
    }


def rest() -> dict[str, Any]:
    """Let the orchestrator take a stage's last word, that two requests run, before and after both are aborted."""
    import asyncio

    from vllm.v1.metrics.stats import SchedulerStats
    from vllm_omni.engine.orchestrator import Orchestrator

    told = [SimpleNamespace(scheduler_stats=SchedulerStats(num_running_reqs=2), outputs=[])]
    pool = mock.MagicMock(stage_type="llm", **{"available_replica_ids.return_value": [0]})
    pool.poll_llm_raw_output = mock.AsyncMock(side_effect=lambda *_, **__: told.pop() if told else None)
    pool.process_llm_raw_outputs = mock.AsyncMock(return_value=[])
    loop = Orchestrator.__new__(Orchestrator)
    loop.num_stages, loop.stage_pools, loop.request_states = 1, [pool], dict.fromkeys(("one", "two"))
    loop._stat_logger, loop._stage_replica_to_engine_idx, loop._orch_monitor = mock.Mock(), {(0, 0): 7}, mock.Mock()
    loop._handle_kv_ready_raw_outputs = mock.AsyncMock()
    loop._shutdown_event = asyncio.Event()
    running: list[list[int]] = []

    async def watch() -> None:
        task = asyncio.create_task(loop._orchestration_loop())
        for _ in range(2):
            await asyncio.sleep(0.1)
            running.append([call.args[0].num_running_reqs for call in loop._stat_logger.record.call_args_list])
            loop.request_states = {}
        loop._shutdown_event.set()
        await task

    asyncio.run(watch())
    return {"with requests": running[0], "without": running[1]}


def _gauges() -> list[float | None]:
    from prometheus_client import REGISTRY

    names = ("vllm_omni:num_requests_running", "vllm_omni:num_requests_waiting")
    return [REGISTRY.get_sample_value(name, {"model_name": "m"}) for name in names]
