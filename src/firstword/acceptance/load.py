"""What an engine's ``/metrics`` tell of its load and its progress. Standard library only."""

import math
import re
from dataclasses import dataclass

# vLLM's own gauges of a stage keep the value of the last step that did something, and so may say 1
# for ever after where they are not patched; vLLM-Omni's count requests from their arrival to their end.
_REQUESTS = ("vllm_omni:num_requests_running", "vllm_omni:num_requests_waiting")
_FALLBACK = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_COUNTERS = (
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm_omni:audio_frames_total",
    "vllm_omni:requests_success_total",
)
_SUCCESSES = "vllm_omni:requests_success_total"
_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(\{.*\})? (\S+)(?: \d+)?$")
_STAGE = re.compile(r'stage="(\d+)"')


@dataclass(frozen=True)
class Load:
    """One reading of ``/metrics``.

    Attributes:
        started_at: When the process started, in seconds since the epoch, or None.
        requests: Requests that run or wait.
        progress: A number that grows while the engine works: tokens, samples and requests, summed.
        successes: Requests that ended by themselves since the start.
        stages: Number of stages that report.
    """

    started_at: float | None
    requests: int
    progress: float
    successes: int
    stages: int


def read(text: str) -> Load:
    """Read Prometheus's text format; what is missing counts as zero."""
    values: dict[str, float] = {}
    successes = 0.0
    stages = set()
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        name, labels, number = match.group(1), match.group(2) or "", match.group(3)
        try:
            value = float(number)
        except ValueError:
            continue
        if not math.isfinite(value):  # what has no value yet
            continue
        values[name] = values.get(name, 0.0) + value
        if name == _SUCCESSES and 'finished_reason="stop"' in labels:
            successes += value
        stage = _STAGE.search(labels)
        if stage is not None:
            stages.add(stage.group(1))
    gauges = _REQUESTS if _REQUESTS[0] in values else _FALLBACK
    return Load(
        started_at=values.get("process_start_time_seconds"),
        requests=round(sum(values.get(name, 0.0) for name in gauges)),
        progress=sum(values.get(name, 0.0) for name in _COUNTERS),
        successes=round(successes),
        stages=len(stages),
    )
