"""An engine's samples on their way to the client: tempo, format, bytes or events."""

import base64
import binascii
from functools import partial
from typing import Any

from firstword.gateway import events
from firstword.gateway.answering import Answer, Produce
from firstword.gateway.asking import Asker, BrokeOff
from firstword.gateway.audio.encoding import Transcoder
from firstword.gateway.audio.formats import FORMATS, RATE
from firstword.gateway.context import Gateway
from firstword.gateway.routing import Target
from firstword.gateway.speech.request import SpeechRequest
from firstword.gateway.threads import at_once

_PATH = "/v1/audio/speech"


def speak(gateway: Gateway, asker: Asker, target: Target, asked: SpeechRequest, body: dict[str, Any]) -> Produce:
    """Return what makes the answer.

    Args:
        gateway: The running gateway.
        asker: Asks the engine.
        target: What is asked.
        asked: What the client asked for.
        body: What the engine is asked, but for the recordings that it is to be given.
    """
    fmt = FORMATS[asked.response_format]
    compute = gateway.threads.soon if fmt.container or asked.speed != 1.0 else at_once

    async def produce(answer: Answer) -> None:
        made = _Sent(answer, asked.events, "text/event-stream; charset=utf-8" if asked.events else fmt.media_type)
        usage: dict[str, Any] | None = None
        ended = False
        ready = await gateway.cloning.filled(body, target.entry, target.model)
        async with gateway.admission.place(target.model), asker.post(_PATH, ready) as response:
            transcoder = await compute(lambda: Transcoder(fmt, speed=asked.speed, whole=asked.whole))
            async for event in events.read(response):
                kind = event.get("type") if isinstance(event, dict) else None
                if kind == "speech.audio.delta":
                    feed = partial(transcoder.feed, _decoded(event))
                    await made.sound(await compute(feed), transcoder)
                elif kind == "speech.audio.done":
                    usage, ended = event.get("usage"), True
                    break
                else:
                    raise BrokeOff(f"an event of its stream is {str(kind)[:40]}")
        if not ended:
            raise BrokeOff("its stream ended without speech.audio.done")
        try:
            rest = await compute(transcoder.finish)
        except ValueError as error:
            raise BrokeOff(str(error)) from error
        if not transcoder.samples:
            raise BrokeOff("it made no sound")
        answer.facts.finish_reason = _reason(asked, usage)
        await made.finish(rest, usage, transcoder)

    return produce


class _Sent:
    """The answer's body, as bytes or as OpenAI's events."""

    def __init__(self, answer: Answer, as_events: bool, media_type: str) -> None:
        self._answer, self._events, self._media_type = answer, as_events, media_type
        self._counted = 0

    async def sound(self, data: bytes, transcoder: Transcoder) -> None:
        if not data:
            return
        self._count(transcoder)
        await self._answer.begin(self._media_type)
        if self._events:
            delta = {"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()}
            data = events.pack(delta, "speech.audio.delta")
        await self._answer.piece(data)

    async def finish(self, rest: bytes, usage: dict[str, Any] | None, transcoder: Transcoder) -> None:
        if not self._answer.started and not self._events:
            self._count(transcoder)
            await self._answer.whole(rest, self._media_type)
            return
        await self.sound(rest, transcoder)
        self._count(transcoder)
        if self._events:
            reason = self._answer.facts.finish_reason
            done = {"type": "speech.audio.done", "usage": usage or {}, "finish_reason": reason}
            await self._answer.piece(events.pack(done, "speech.audio.done"))
        await self._answer.end()

    def _count(self, transcoder: Transcoder) -> None:
        self._answer.sound((transcoder.samples - self._counted) / RATE)
        self._counted = transcoder.samples


def _reason(asked: SpeechRequest, usage: dict[str, Any] | None) -> str:
    """Return why the model ended, which engines do not tell: at the length that the client set, or by itself."""
    made = (usage or {}).get("output_tokens")
    limited = asked.max_new_tokens is not None and isinstance(made, int) and made >= asked.max_new_tokens
    return "length" if limited else "stop"


def _decoded(event: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(event["audio"], validate=True)
    except (KeyError, TypeError, binascii.Error) as error:
        raise BrokeOff("an event of its stream holds no sound") from error
