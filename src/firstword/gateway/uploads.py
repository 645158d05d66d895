"""How many bytes of recordings are held at a time, all clients together."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from firstword.gateway.errors import ProblemError


class Uploads:
    """Gives out room for recordings.

    Args:
        most: Bytes.
    """

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0

    @contextmanager
    def room(self, size: int) -> Iterator[None]:
        """Hold room for one recording for as long as the block lasts.

        Raises:
            ProblemError: There is none now (429). One alone always has room.
        """
        if self._held and self._held + size > self._most:
            raise ProblemError(
                429,
                "As many recordings are in work as there is memory for",
                code="rate_limit_exceeded",
                retry_after=2,
            )
        self._held += size
        try:
            yield
        finally:
            self._held -= size

    def room_for(self, headers: Mapping[str, str], limit: int) -> AbstractContextManager[None]:
        """Hold room for a request's recording: as much as its headers announce, at most ``limit``, without them that.

        Raises:
            ProblemError: There is none now (429).
        """
        announced = headers.get("content-length", "")
        return self.room(min(int(announced), limit) if announced.isdecimal() else limit)
