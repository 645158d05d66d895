"""How many requests a model is given at a time, how many may wait, and when the next should come back."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from firstword.gateway.errors import ProblemError

_MOST_SECONDS = 60


@dataclass
class Line:
    """The requests of one model.

    Attributes:
        free: Places that are left.
        running: Requests that have one.
        waiting: Requests that wait for one.
        seconds: What a request takes, as a moving average.
    """

    free: asyncio.Semaphore
    running: int = 0
    waiting: int = 0
    seconds: float = 1.0


@dataclass
class Admission:
    """Gives out places.

    Attributes:
        concurrency: Requests of one model that are with its engines at a time.
        queue: Requests of one model that may wait.
        lines: By model.
    """

    concurrency: int
    queue: int
    lines: dict[str, Line] = field(default_factory=dict)

    @asynccontextmanager
    async def place(self, model: str) -> AsyncIterator[None]:
        """Hold a place for as long as the block lasts, after waiting for one.

        Raises:
            ProblemError: As many wait as may (429, with ``Retry-After``).
        """
        line = self.lines.setdefault(model, Line(asyncio.Semaphore(self.concurrency)))
        if line.free.locked():
            if line.waiting >= self.queue:
                raise self._full(model, line)
            line.waiting += 1
            try:
                await line.free.acquire()
            finally:
                line.waiting -= 1
        else:
            await line.free.acquire()
        line.running += 1
        began = time.monotonic()
        try:
            yield
        finally:
            line.running -= 1
            line.free.release()
            line.seconds += 0.2 * (time.monotonic() - began - line.seconds)

    def _full(self, model: str, line: Line) -> ProblemError:
        seconds = line.seconds * (line.waiting + 1) / self.concurrency
        return ProblemError(
            429,
            f"{model} has {line.running} requests in work and {line.waiting} waiting, which is all it takes",
            code="rate_limit_exceeded",
            retry_after=min(_MOST_SECONDS, max(1, math.ceil(seconds))),
        )
