"""The workloads that are counted."""

from functools import partial

from firstword.bench.syncs.recognition import recognize
from firstword.bench.syncs.streaming import speak
from firstword.bench.syncs.talking import clone, code2wav, decode
from firstword.bench.syncs.workload import Workload

_STEP, _QWEN = "step-audio-2-mini-synthetic", "qwen3-tts-base-synthetic"

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("recognition, 1 request", _STEP, partial(recognize, requests=1)),
        Workload("recognition, 8 requests", _STEP, partial(recognize, requests=8)),
        Workload("streamed speech", _STEP, partial(speak, requests=1)),
        Workload("streamed speech, 8 requests", _STEP, partial(speak, requests=8)),
        Workload("decode step, 1 request", _QWEN, partial(decode, requests=1, background=True)),
        Workload("decode step, 8 requests", _QWEN, partial(decode, requests=8, background=True)),
        Workload("decode step, 8 requests, no async scheduling", _QWEN, partial(decode, requests=8, background=False)),
        Workload("code2wav step, 1 request", _QWEN, partial(code2wav, requests=1)),
        Workload("code2wav step, 8 requests", _QWEN, partial(code2wav, requests=8)),
        Workload("reference", _QWEN, clone),
    )
}
