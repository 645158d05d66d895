"""What Prometheus is told: requests and how they ended, sound and its pace, queues, and the engines' states."""

from collections.abc import Iterable, Iterator
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from firstword.gateway.admission import Admission
from firstword.gateway.logs import Facts
from firstword.gateway.upstreams import Result, Upstream

_LABELS = ("kind", "model")
_SECONDS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 13, 21, 34, 60, 120, 300, 600)
_FACTORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1, 1.25, 1.5, 2, 3, 5, 10)
_STATES = ("starting", "ready", "not_ready")


class Metrics:
    """Counts one gateway's requests.

    Args:
        admission: Knows who waits.
        upstreams: The engines.
    """

    def __init__(self, admission: Admission, upstreams: Iterable[Upstream]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "firstword_requests", "Requests that have ended", (*_LABELS, "status", "outcome"), registry=self._registry
        )
        self._seconds = Histogram(
            "firstword_request_seconds",
            "Seconds from a request to its end",
            _LABELS,
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._first = Histogram(
            "firstword_first_audio_seconds",
            "Seconds to the first sound of an answer",
            _LABELS,
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._factor = Histogram(
            "firstword_real_time_factor",
            "Seconds that a complete answer took, by the seconds of sound made or heard",
            _LABELS,
            buckets=_FACTORS,
            registry=self._registry,
        )
        self._sound = Counter(
            "firstword_audio_seconds", "Seconds of sound made or heard", _LABELS, registry=self._registry
        )
        self._ends = Counter("firstword_finish", "Why models ended", (*_LABELS, "reason"), registry=self._registry)
        self._registry.register(_Now(admission, upstreams))

    def count(self, facts: Facts, status: int, outcome: str, seconds: float) -> None:
        """Count one request that has ended.

        Args:
            facts: What is known of it.
            status: HTTP status; 0 where none was sent.
            outcome: As it is logged.
            seconds: That it took.
        """
        # Never the name that a client made up: each would be a series of its own.
        labels = (facts.kind or "other", facts.served or "")
        self._requests.labels(*labels, str(status or ""), outcome).inc()
        if facts.kind is None:
            return
        self._seconds.labels(*labels).observe(seconds)
        if facts.first_audio is not None:
            self._first.labels(*labels).observe(facts.first_audio)
        if facts.audio_seconds:
            self._sound.labels(*labels).inc(facts.audio_seconds)
            if outcome == "complete" and status == 200:
                self._factor.labels(*labels).observe(seconds / facts.audio_seconds)
        if facts.finish_reason:
            self._ends.labels(*labels, facts.finish_reason[:40]).inc()

    def page(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self._registry)


class _Now(Collector):
    """What is so at the moment it is asked for."""

    def __init__(self, admission: Admission, upstreams: Iterable[Upstream]) -> None:
        self._admission, self._upstreams = admission, upstreams

    def collect(self) -> Iterator[Metric]:
        running = GaugeMetricFamily("firstword_in_flight", "Requests that are with an engine", labels=["model"])
        waiting = GaugeMetricFamily("firstword_queue", "Requests that wait for their turn", labels=["model"])
        for model, line in self._admission.lines.items():
            running.add_metric([model], line.running)
            waiting.add_metric([model], line.waiting)
        of_one = ["upstream", "address"]
        state = GaugeMetricFamily("firstword_upstream_state", "1 for the state it is in", labels=[*of_one, "state"])
        asked = GaugeMetricFamily("firstword_upstream_requests", "Requests that it works on", labels=of_one)
        results = CounterMetricFamily(
            "firstword_upstream_results",
            "Requests that it began to answer, did not, or broke off",
            labels=[*of_one, "result"],
        )
        for upstream in self._upstreams:
            one = [upstream.host, upstream.address]
            asked.add_metric(one, upstream.requests)
            for name in _STATES:
                state.add_metric([*one, name], float(upstream.condition.state == name))
            for result in get_args(Result):
                results.add_metric([*one, result], upstream.results[result])
        yield from (running, waiting, state, asked, results)
