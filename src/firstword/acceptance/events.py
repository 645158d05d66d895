"""Server-sent events. Standard library only."""

from collections.abc import Iterable, Iterator
from typing import Any

from firstword import documents

DONE = "[DONE]"


def read(lines: Iterable[str]) -> Iterator[Any]:
    """Yield the decoded data of each event; ``[DONE]`` as the string `DONE`.

    Args:
        lines: The body's lines, without their ends.

    Raises:
        ValueError: An event's data is not JSON.
    """
    data: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield _decode("\n".join(data))
            data = []
    if data:
        yield _decode("\n".join(data))


def _decode(data: str) -> Any:
    return DONE if data == DONE else documents.parse_json(data)
