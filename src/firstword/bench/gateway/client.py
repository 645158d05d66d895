"""Many streams at once from one address, each chunk timed when its last byte has come."""

import asyncio
import json
import statistics
import time
import urllib.parse
from dataclasses import dataclass, field

import h11

from firstword.bench.gateway import chunks
from firstword.bench.gateway.upstream import MODEL, ORDER


@dataclass
class Seen:
    """What came. Times in seconds.

    Attributes:
        first: From each request to its first chunk.
        late: From the sending of each chunk to its arrival.
        streams: How many were whole.
        seconds: That all took.
    """

    first: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    streams: int = 0
    seconds: float = 0.0

    def summary(self) -> dict[str, float]:
        """Return what is told of it, in ms and requests a second."""
        return {
            "first_p50_ms": _ms(quantile(self.first, 0.5)),
            "first_p99_ms": _ms(quantile(self.first, 0.99)),
            "late_p50_ms": _ms(quantile(self.late, 0.5)),
            "late_p99_ms": _ms(quantile(self.late, 0.99)),
            "late_most_ms": _ms(max(self.late)),
            "late_by_a_period": sum(late > chunks.PERIOD for late in self.late),
            "chunks": len(self.late),
            "streams": self.streams,
            "requests_per_second": round(self.streams / self.seconds, 1),
        }


def ask(url: str, *, at_a_time: int, rounds: int, count: int, period: float) -> Seen:
    """Take streams of ``count`` chunks, ``period`` s apart, ``rounds`` one after the other in each of ``at_a_time``."""
    return asyncio.run(_all(url, at_a_time, rounds, count, period))


def quantile(values: list[float], share: float) -> float:
    """Return the value that ``share`` of them are not above."""
    if len(values) < 2:
        return values[0]
    return statistics.quantiles(values, n=1000, method="inclusive")[round(share * 1000) - 1]


async def _all(url: str, at_a_time: int, rounds: int, count: int, period: float) -> Seen:
    seen = Seen()
    began = time.monotonic()

    async def one_after_the_other(place: int) -> None:
        # Not all in one moment: that would be a measurement of the accept queue.
        await asyncio.sleep(period * place / at_a_time)
        for _ in range(rounds):
            await _stream(url, count, period, seen)

    async with asyncio.TaskGroup() as group:
        for place in range(at_a_time):
            group.create_task(one_after_the_other(place))
    seen.seconds = time.monotonic() - began
    return seen


async def _stream(url: str, count: int, period: float, seen: Seen) -> None:
    parts = urllib.parse.urlsplit(url)
    text = f"{ORDER} {count} {period:g}"
    body = {"model": MODEL, "input": text, "voice": "ryan", "response_format": "pcm", "stream_format": "audio"}
    data = json.dumps(body).encode()
    began = time.monotonic_ns()
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        link = h11.Connection(h11.CLIENT)
        headers = {
            "host": parts.netloc,
            "content-type": "application/json",
            "content-length": str(len(data)),
            "authorization": "Bearer sk-bench",
            "connection": "close",
        }
        request = h11.Request(method="POST", target="/v1/audio/speech", headers=list(headers.items()))
        writer.write(link.send(request) + link.send(h11.Data(data)) + link.send(h11.EndOfMessage()))
        await _take(link, reader, began, count, seen)
    finally:
        writer.close()


async def _take(link: h11.Connection, reader: asyncio.StreamReader, began: int, count: int, seen: Seen) -> None:
    held, got = bytearray(), 0
    while True:
        event = link.next_event()
        if event is h11.NEED_DATA:
            link.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Response):
            if event.status_code != 200:
                raise RuntimeError(f"status {event.status_code}")
        elif isinstance(event, h11.Data):
            held += event.data
            while len(held) >= chunks.SIZE:
                now = time.monotonic_ns()
                told = chunks.read(held)
                del held[: chunks.SIZE]
                if told.number != got:
                    raise RuntimeError(f"chunk {told.number} came where {got} should")
                if not got:
                    seen.first.append((now - began) / 1e9)
                seen.late.append((now - told.sent) / 1e9)
                got += 1
        elif isinstance(event, h11.EndOfMessage):
            if got != count or held:
                raise RuntimeError(f"{got} of {count} chunks came")
            seen.streams += 1
            return


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
