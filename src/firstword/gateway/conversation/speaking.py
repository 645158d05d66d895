"""An engine's text and samples, as they come in chat completions, made into OpenAI's spoken answer."""

import base64
import binascii
import time
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from fastapi.responses import JSONResponse

from firstword.gateway import events
from firstword.gateway.answering import Answer, Produce
from firstword.gateway.asking import Asker, BrokeOff
from firstword.gateway.audio.encoding import Transcoder
from firstword.gateway.audio.formats import RATE
from firstword.gateway.context import Gateway
from firstword.gateway.conversation.request import Spoken
from firstword.gateway.tokens import without_control_tokens

_PATH = "/v1/chat/completions"
# OpenAI keeps sound so long; here it is not kept, but clients' types want the field.
_KEPT_SECONDS = 0


def answer_aloud(gateway: Gateway, asker: Asker, model: str, asked: Spoken, body: dict[str, Any]) -> Produce:
    """Return what makes the answer.

    Args:
        gateway: The running gateway.
        asker: Asks the engine.
        model: The model's id at its engine.
        asked: What the client asked for.
        body: What the engine is asked.
    """

    async def produce(answer: Answer) -> None:
        async with gateway.admission.place(model):
            make = _streamed if asked.streamed else _plain
            await make(gateway, asker, asked, body, answer)

    return produce


async def _plain(gateway: Gateway, asker: Asker, asked: Spoken, body: dict[str, Any], answer: Answer) -> None:
    document = await asker.json(_PATH, body)
    text: str | None = None
    reason, sound = None, b""
    try:
        for choice in document["choices"]:
            message = choice["message"]
            if message.get("audio"):
                sound += base64.b64decode(message["audio"]["data"])
                reason = reason or choice["finish_reason"]
            elif message.get("content") is not None:
                text, reason = (text or "") + message["content"], choice["finish_reason"]
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise BrokeOff("its answer has another shape than OpenAI's") from error
    told = "".join(without_control_tokens(text or ""))
    message = {"role": "assistant", "content": told or None, "refusal": None}
    if sound:
        transcoder = Transcoder(asked.fmt, whole=True)
        made = await gateway.threads.soon(lambda: transcoder.feed(sound) + transcoder.finish())
        answer.sound(transcoder.samples / RATE)
        message |= {"content": None, "audio": {**_audio_id(), "data": _b64(made), "transcript": told.strip()}}
        message["audio"]["expires_at"] = _expires()
    answer.facts.finish_reason = reason
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason or "stop"}
    await answer.whole(bytes(JSONResponse({**document, "choices": [choice]}).body), "application/json")


async def _streamed(gateway: Gateway, asker: Asker, asked: Spoken, body: dict[str, Any], answer: Answer) -> None:
    transcoder = await gateway.threads.soon(lambda: Transcoder(asked.fmt))
    told = _Told(answer, transcoder, gateway.threads.soon)
    ended = False
    async with asker.post(_PATH, body) as response:
        async for event in events.read(response):
            if event == events.DONE:
                ended = True
                break
            await told.take(event)
    if not ended:
        raise BrokeOff("its stream ended without [DONE]")
    await told.finish()


class _Told:
    """The stream so far. Text waits for the first sound: until then it may be the whole answer."""

    def __init__(
        self,
        answer: Answer,
        transcoder: Transcoder,
        soon: Callable[[Callable[[], bytes]], Awaitable[bytes]],
    ) -> None:
        self._answer, self._transcoder, self._soon = answer, transcoder, soon
        self._frame: dict[str, Any] = {"object": "chat.completion.chunk"}
        self._audio = _audio_id()
        self._role: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        self._held = ""
        self._beginning = ""
        self._spoken = False
        self._reason: str | None = None
        self._usage: dict[str, Any] | None = None
        self._counted = 0

    async def take(self, event: dict[str, Any]) -> None:
        """Take one event of the engine's."""
        self._frame |= {name: event[name] for name in ("id", "created", "model") if name in event}
        if not event.get("choices"):
            self._usage = event.get("usage") or self._usage
        for content, reason in events.deltas(event):
            self._reason = reason or self._reason
            if not content:
                continue
            if event.get("modality") == "audio":
                await self._sound(content)
            else:
                text, self._beginning = without_control_tokens(self._beginning + content)
                await self._text(text)

    async def finish(self) -> None:
        """Send what is left, and the end."""
        await self._text(self._beginning)
        if self._spoken:
            try:
                rest = await self._soon(self._transcoder.finish)
            except ValueError as error:
                raise BrokeOff(str(error)) from error
            await self._send_sound(rest)
            await self._delta({"audio": {**self._audio, "expires_at": _expires()}})
        elif self._held:
            await self._delta({"content": self._held})
        self._answer.facts.finish_reason = self._reason
        await self._send([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": self._reason or "stop"}])
        if self._usage is not None:
            await self._send([], usage=self._usage)
        await self._answer.piece(events.pack(events.DONE))
        await self._answer.end()

    async def _text(self, text: str) -> None:
        if not text:
            return
        if self._spoken:
            await self._delta({"audio": {**self._audio, "transcript": text}})
        else:
            self._held += text

    async def _sound(self, content: str) -> None:
        try:
            samples = base64.b64decode(content, validate=True)
        except binascii.Error as error:
            raise BrokeOff("an event of its stream holds no sound") from error
        if not self._spoken:
            self._spoken = True
            held, self._held = self._held.lstrip(), ""
            await self._delta({"audio": {**self._audio, "transcript": held}})
        await self._send_sound(await self._soon(partial(self._transcoder.feed, samples)))

    async def _send_sound(self, data: bytes) -> None:
        if data:
            self._answer.sound((self._transcoder.samples - self._counted) / RATE)
            self._counted = self._transcoder.samples
            await self._delta({"audio": {**self._audio, "data": _b64(data)}})

    async def _delta(self, delta: dict[str, Any]) -> None:
        whole = {**self._role, **delta}
        self._role = {}
        await self._send([{"index": 0, "delta": whole, "logprobs": None, "finish_reason": None}])

    async def _send(self, choices: list[dict[str, Any]], **more: Any) -> None:
        await self._answer.begin("text/event-stream; charset=utf-8")
        await self._answer.piece(events.pack({**self._frame, "choices": choices, **more}))


def _audio_id() -> dict[str, Any]:
    return {"id": f"audio_{uuid.uuid4().hex[:24]}"}


def _expires() -> int:
    return int(time.time()) + _KEPT_SECONDS


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
