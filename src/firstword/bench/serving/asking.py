"""Many requests at once, and what a round of them took."""

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from firstword.acceptance.client import Client
from firstword.acceptance.errors import ApiError, UnreachableError
from firstword.acceptance.recording import vowels
from firstword.bench import usage
from firstword.bench.serving.sides import Side

BYTES_PER_SECOND = 24000 * 2  # of pcm
SPOKEN = "Request number {} says something of its own, as long as this."


@dataclass(frozen=True)
class Answer:
    """One request: seconds until its first audio (or its whole answer) and its last byte, and seconds of audio."""

    first: float
    whole: float
    audio: float
    underruns: int
    failed: bool = False


@dataclass(frozen=True)
class Round:
    """What a number of requests took together.

    Attributes:
        requests_per_second: Answered ones.
        audio_per_second: Seconds of audio made in each second.
        real_time_factor: Of a request: its seconds for each second of its audio, median; 0 without audio.
        first_p50: Seconds to first audio, or to the whole answer where nothing is streamed; median.
        first_p95: The 95th percentile of it.
        underruns: Streams whose audio ran out before its next chunk came.
        errors: Requests without an answer.
        cpu_seconds: Used by the engine's processes.
        memory: Bytes they held at most, shared pages counted once.
    """

    requests_per_second: float
    audio_per_second: float
    real_time_factor: float
    first_p50: float
    first_p95: float
    underruns: int
    errors: int
    cpu_seconds: float
    memory: int


def plain_speech(client: Client, number: int) -> Answer:
    """Ask for speech as a whole."""
    told = client.speech(SPOKEN.format(number), fmt="pcm", seed=number)
    return Answer(told.seconds, told.seconds, len(told.body) / BYTES_PER_SECOND, 0)


def streamed_speech(client: Client, number: int) -> Answer:
    """Ask for speech as it is made; playing begins with the first chunk."""
    told = client.speech_stream(SPOKEN.format(number), seed=number)
    heard, late = 0.0, 0
    for chunk in told.chunks:
        late += chunk.at - told.first_audio > heard > 0
        heard += len(chunk.data) / BYTES_PER_SECOND
    return Answer(told.first_audio, told.seconds, heard, int(late > 0))


def recognition(client: Client, number: int) -> Answer:
    """Ask for the text of a recording of 2.4 seconds, another for each of eight."""
    told = client.transcribe(_recording(number % 8))
    return Answer(told.seconds, told.seconds, 0.0, 0)


@functools.cache
def _recording(number: int) -> bytes:
    return vowels(pitch=100.0 + 10 * number, seed=number)


WORKLOADS: dict[str, dict[str, Callable[[Client, int], Answer]]] = {
    "qwen3-tts": {"speech, streamed": streamed_speech, "speech, whole": plain_speech},
    "step-audio-2": {"speech, streamed": streamed_speech, "speech, whole": plain_speech, "recognition": recognition},
}


def ask(side: Side, workload: Callable[[Client, int], Answer], together: int, requests: int) -> Round:
    """Send `requests`, `together` at a time."""

    def one(number: int) -> Answer:
        try:
            with side.client() as client:
                return workload(client, number)
        except (ApiError, UnreachableError):
            return Answer(0.0, 0.0, 0.0, 0, failed=True)

    for number in range(8):  # made before, not while the clock runs
        _recording(number)
    before, began = usage.cpu_seconds(side.process.pid), time.perf_counter()
    peak = usage.Peak([side.process.pid])
    with ThreadPoolExecutor(together) as pool:
        answers = list(pool.map(one, range(requests)))
    seconds = time.perf_counter() - began
    memory = peak.stop()[side.process.pid]
    good = [answer for answer in answers if not answer.failed]
    factors = [answer.whole / answer.audio for answer in good if answer.audio]
    first = sorted(answer.first for answer in good) or [0.0]
    return Round(
        requests_per_second=len(good) / seconds,
        audio_per_second=sum(answer.audio for answer in good) / seconds,
        real_time_factor=statistics.median(factors) if factors else 0.0,
        first_p50=statistics.median(first),
        first_p95=first[min(len(first) - 1, int(0.95 * len(first)))],
        underruns=sum(answer.underruns for answer in good),
        errors=len(answers) - len(good),
        cpu_seconds=usage.cpu_seconds(side.process.pid) - before,
        memory=memory,
    )


def medians(rounds: Sequence[Round]) -> dict[str, float]:
    """Return the median of each figure; of errors and underruns, the sum."""
    summed = ("errors", "underruns")
    return {
        field.name: (sum if field.name in summed else statistics.median)([getattr(one, field.name) for one in rounds])
        for field in dataclasses.fields(Round)
    }
