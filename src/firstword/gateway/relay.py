"""Send a request on to an engine and its answer back, byte for byte, as it comes."""

import re
from typing import Any

from firstword.gateway.admission import Admission
from firstword.gateway.answering import Answer, Produce
from firstword.gateway.asking import Asker

_PASSED = re.compile(rb"content-type|content-length|x-.*", re.IGNORECASE)


def relay(admission: Admission, model: str, asker: Asker, path: str, body: bytes | dict[str, Any]) -> Produce:
    """Return what passes an engine's answer on.

    Args:
        admission: Where the request waits for its turn.
        model: The model's id at its engine.
        asker: Asks.
        path: What to ask it.
        body: The request's body.
    """

    async def produce(answer: Answer) -> None:
        async with admission.place(model), asker.post(path, body) as response:
            await answer.start((name, value) for name, value in response.headers.raw if _PASSED.fullmatch(name))
            async for piece in response.aiter_raw():
                await answer.piece(piece)
            await answer.end()

    return produce
