"""Check how requests share a KV cache that is too small: the installed schedulers, with a runner that only samples."""

import random
from types import SimpleNamespace
from typing import Any
from unittest import mock

BLOCK = 16  # tokens
PROMPT, FRAMES = 40, 200  # of the longest requests
STOP = 7  # a token


def sharing() -> dict[str, Any]:
    """Let requests of all lengths come and go, on caches from the size of one request."""
    return {
        "talker": _facts("Qwen3TTSTalkerForConditionalGeneration"),
        "thinker": _facts("StepAudio2ForConditionalGeneration"),
    }


def _facts(architecture: str) -> dict[str, Any]:
    most = -(-(PROMPT + FRAMES) // BLOCK)
    small = [
        Stage(architecture, most + 5 * (seed % 4), seed, is_async=is_async, policy=policy).serve(30)
        for seed in range(8)
        for is_async in (False, True)
        for policy in ("fcfs", "priority")
    ]
    ample = Stage(architecture, 8 * most, 0).serve(30)
    return {
        "preempted": any(stage.preempted for stage in small),
        "ended": all(stage.ended == 30 for stage in small),
        "of all lengths": all(stage.right for stage in small),
        "some waited": any(stage.held for stage in small),
        "together, with room": ample.together,
        "preempted or waited, with room": bool(ample.preempted or ample.held),
        "blocks left": sum(stage.used() for stage in [*small, ample]),
    }


def longest() -> dict[str, Any]:
    """Serve a request of full length on a cache of just its size, and on one that vLLM takes for as large."""
    most = -(-(PROMPT + FRAMES) // BLOCK)
    return {name: _one_long(blocks) for name, blocks in (("its size", most), ("one block less", most - 1))}


def _one_long(blocks: int) -> str:
    try:
        stage = Stage("StepAudio2ForConditionalGeneration", blocks, 0)
    except ValueError as error:
        return str(error).partition(":")[0]
    always_most = {"randint.side_effect": lambda _, most: most, "random.return_value": 1.0}
    stage.random = mock.Mock(**always_most)
    stage.serve(1)
    return "served" if stage.ended == 1 and stage.right else "waits for ever"


class Stage:
    """A scheduler, and what became of its requests."""

    def __init__(
        self, architecture: str, blocks: int, seed: int, *, is_async: bool = False, policy: str = "fcfs"
    ) -> None:
        self.random = random.Random(seed)
        self.scheduler = _scheduler(architecture, blocks, is_async=is_async, policy=policy)
        # With async scheduling one step is always under way while the next is scheduled.
        self.under_way: list[Any] = []
        self.depth = 2 if is_async else 1
        self.wanted: dict[str, int] = {}
        self.lengths: dict[str, int] = {}
        self.preempted = self.held = self.together = self.ended = 0
        self.right = True

    def serve(self, count: int) -> "Stage":
        """Serve so many requests; they come in bursts, and every fifth is left before its end."""
        added: list[Any] = []
        for step in range(10_000):
            if step % 20 == 0 or not self.scheduler.requests:
                for _ in range(min(8, count - len(added))):
                    added.append(self._add(len(added)))
            if self.ended == count:
                break
            self._step()
            leaving = self.random.choice(added)
            if self.random.random() < 0.02 and leaving.request_id in self.scheduler.requests:
                self._leave(leaving)
        while self.under_way:
            self._take()
        self.preempted = sum(request.num_preemptions for request in added)
        return self

    def used(self) -> int:
        pool = self.scheduler.kv_cache_manager.block_pool
        return int(pool.num_gpu_blocks - 1 - pool.get_num_free_blocks())

    def _add(self, number: int) -> Any:
        from vllm import SamplingParams
        from vllm.v1.request import Request

        limit = self.random.randint(20, FRAMES)
        request = Request(
            request_id=f"r{number}",
            prompt_token_ids=[1] * self.random.randint(5, PROMPT),
            sampling_params=SamplingParams(max_tokens=limit, stop_token_ids=[STOP]),
            pooling_params=None,
            arrival_time=number,
            priority=self.random.randint(0, 2),
        )
        request.external_req_id = request.request_id
        # Half of them end long before their limit, as speech does.
        self.wanted[request.request_id] = limit if number % 2 else self.random.randint(2, limit)
        self.lengths[request.request_id] = 0
        self.scheduler.add_request(request)
        return request

    def _leave(self, request: Any) -> None:
        from vllm.v1.request import RequestStatus

        self.scheduler.finish_requests(request.request_id, RequestStatus.FINISHED_ABORTED)
        self.ended += 1

    def _step(self) -> None:
        scheduled = self.scheduler.schedule()
        requests = {name: self.scheduler.requests[name] for name in scheduled.num_scheduled_tokens}
        self.under_way.append((scheduled, {name for name, request in requests.items() if not request.is_prefill_chunk}))
        self.together = max(self.together, len(scheduled.num_scheduled_tokens))
        self.held += any(r.next_decode_eligible_step > self.scheduler.current_step for r in self.scheduler.running)
        if len(self.under_way) >= self.depth:
            self._take()

    def _take(self) -> None:
        from vllm.v1.outputs import ModelRunnerOutput

        scheduled, decoded = self.under_way.pop(0)
        ids = list(scheduled.num_scheduled_tokens)
        sampled = [self._sample(name) if name in decoded else [] for name in ids]
        output = ModelRunnerOutput(ids, {name: index for index, name in enumerate(ids)}, sampled)
        for outputs in self.scheduler.update_from_output(scheduled, output).values():
            for ended in outputs.outputs:
                self.lengths[ended.request_id] += len(ended.new_token_ids)
                if ended.finish_reason is not None and ended.new_token_ids:
                    self.ended += 1
                    self.right &= self.lengths[ended.request_id] == self.wanted[ended.request_id]

    def _sample(self, name: str) -> list[int]:
        request = self.scheduler.requests.get(name)
        last = request is not None and request.num_output_tokens + 1 == self.wanted[name]
        return [STOP if last else 1]


def _scheduler(architecture: str, blocks: int, *, is_async: bool, policy: str) -> Any:
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm_omni.core.sched import omni_ar_scheduler as module

    model = SimpleNamespace(
        architectures=[architecture],
        max_model_len=PROMPT + FRAMES,
        is_encoder_decoder=False,
        is_diffusion=False,
        enable_return_routed_experts=False,
        is_multimodal_model=False,
        async_chunk=False,
        stage_id=0,
    )
    scheduling = SimpleNamespace(
        max_num_seqs=8,
        max_num_scheduled_tokens=None,
        max_num_batched_tokens=60,  # less than two prompts: chunked prefill
        policy=policy,
        watermark=0.0,
        scheduler_reserve_full_isl=True,
        long_prefill_token_threshold=0,
        enable_chunked_prefill=True,
        async_scheduling=is_async,
    )
    config = mock.MagicMock(
        model_config=model,
        scheduler_config=scheduling,
        lora_config=None,
        kv_events_config=None,
        kv_transfer_config=None,
        ec_transfer_config=None,
        speculative_config=None,
        num_speculative_tokens=0,
        max_in_flight_tokens=120,
        max_concurrent_batches=1 + is_async,
        use_v2_model_runner=False,
    )
    config.cache_config = SimpleNamespace(num_gpu_blocks=blocks + 1, enable_prefix_caching=False, mamba_cache_mode="")
    config.parallel_config = SimpleNamespace(
        decode_context_parallel_size=1,
        prefill_context_parallel_size=1,
        pipeline_parallel_size=1,
        data_parallel_index=0,
    )
    config.observability_config = SimpleNamespace(
        kv_cache_metrics=False, enable_mfu_metrics=False, enable_logging_iteration_details=False
    )
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=8, dtype=torch.float32)
    cache = KVCacheConfig(
        num_blocks=blocks + 1, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
    )
    kind = module.OmniARAsyncScheduler if is_async else module.OmniARScheduler
    structured = mock.MagicMock()
    structured.should_advance.return_value = False
    registry = mock.MagicMock()
    registry.supports_multimodal_inputs.return_value = False
    with mock.patch.object(module, "uses_full_payload_input_coordinator", return_value=False):
        return kind(
            vllm_config=config,
            kv_cache_config=cache,
            structured_output_manager=structured,
            block_size=BLOCK,
            mm_registry=registry,
        )
