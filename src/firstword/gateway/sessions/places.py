"""How many WebSockets are open at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from firstword.gateway.errors import ProblemError


class Places:
    """Gives out places.

    Args:
        most: How many.
    """

    def __init__(self, most: int) -> None:
        self._most, self.taken = most, 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold one for as long as the block lasts.

        Raises:
            ProblemError: None is left (429).
        """
        if self.taken >= self._most:
            message = f"{self.taken} WebSockets are open, which is all it takes"
            raise ProblemError(429, message, code="rate_limit_exceeded", retry_after=5)
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
