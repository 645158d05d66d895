"""Send a request on to an engine and its answer back, byte for byte, as it comes."""

import re
from typing import Any

from firstword.gateway.admission import Admission
from firstword.gateway.answering import Answer, Produce
from firstword.gateway.asking import Asker

_PASSED = re.compile(rb"content-type|content-length|x-.*", re.IGNORECASE)

# As vLLM writes it, in an answer and in the last events of a stream.
_REASON = re.compile(rb'"finish_reason"\s*:\s*"([a-z_]{1,40})"')
_LONGEST = 80


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
            headers = [(name, value) for name, value in response.headers.raw if _PASSED.fullmatch(name)]
            if response.headers.get("content-type", "").startswith("application/json"):
                whole = b"".join([piece async for piece in response.aiter_raw()])
                answer.facts.finish_reason = _reason(whole)
                await answer.start([*headers, *answer.reason()])
                await answer.piece(whole)
            else:
                await answer.start(headers)
                end = b""
                async for piece in response.aiter_raw():
                    await answer.piece(piece)
                    end = end[-_LONGEST:] + piece
                    answer.facts.finish_reason = _reason(end) or answer.facts.finish_reason
            await answer.end()

    return produce


def _reason(data: bytes) -> str | None:
    found = _REASON.findall(data)
    return found[-1].decode() if found else None
