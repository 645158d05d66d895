"""Work that computes runs in threads, a bounded number at a time, so that the event loop never waits for it."""

import os
from collections.abc import Callable

from anyio import CapacityLimiter, to_thread


async def at_once[T](work: Callable[[], T]) -> T:
    """Do what takes microseconds: less than it would take to hand it to a thread."""
    return work()


class Threads:
    """Two kinds of work, so that long decoding never keeps short encoding from its turn.

    Args:
        decoders: Recordings that are decoded at a time.
    """

    def __init__(self, decoders: int) -> None:
        self._short = CapacityLimiter(max(2, os.cpu_count() or 1))
        self._decoding = CapacityLimiter(decoders)

    async def soon[T](self, work: Callable[[], T]) -> T:
        """Do what takes milliseconds."""
        return await to_thread.run_sync(work, limiter=self._short)

    async def decode[T](self, work: Callable[[], T]) -> T:
        """Do what takes seconds."""
        return await to_thread.run_sync(work, limiter=self._decoding)
