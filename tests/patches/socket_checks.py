"""Check the sessions of the speech WebSocket: with a client that leaves, and with one that sends what it should not."""

import asyncio
import json
from typing import Any

SECONDS = 2.0  # after which what has not happened does not happen
CONFIG = {"type": "session.config"}
DONE = {"type": "input.done"}


class Service:
    """A speech service that speaks at once, or never."""

    forced_aligner_config = None

    def __init__(self, *, never: bool = False) -> None:
        self.never = never
        self.spoken: list[str] = []
        self.given_up = 0
        self.aborted: list[str] = []
        self.engine_client = self

    async def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)

    async def _wait(self) -> None:
        try:
            await asyncio.sleep(60 if self.never else 0)
        except asyncio.CancelledError:
            self.given_up += 1
            raise

    async def _generate_audio_bytes(self, request: Any) -> tuple[bytes, str]:
        await self._wait()
        self.spoken.append(request.input)
        return b"sound", "audio/wav"

    async def _prepare_speech_generation(self, request: Any) -> tuple[str, Any, Any]:
        return "one", None, None

    async def _generate_pcm_chunks(self, *_: Any) -> Any:
        await self._wait()
        yield b"sound"


def _session(service: Service, frames: list[Any], *, stay: bool = False) -> list[str]:
    """Send documents, texts and bytes, and leave or say no more; return what types and messages come back."""
    from fastapi import WebSocket
    from vllm_omni.entrypoints.openai.serving_speech_stream import OmniStreamingSpeechHandler

    sent: list[str] = []

    async def run() -> None:
        coming: list[dict[str, Any]] = [{"type": "websocket.connect"}]
        for frame in frames:
            kind = "bytes" if isinstance(frame, bytes) else "text"
            content = json.dumps(frame) if isinstance(frame, dict) else frame
            coming.append({"type": "websocket.receive", kind: content})
        coming.append({"type": "websocket.disconnect", "code": 1001})

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(60 if stay and len(coming) == 1 else 0.01)
            return coming.pop(0)

        async def send(message: Any) -> None:
            if text := message.get("text"):
                text.encode()
                told = json.loads(text)
                sent.append(told["message"] if told["type"] == "error" else told["type"])

        scope = {"type": "websocket", "path": "/", "headers": [], "query_string": b""}
        handler = OmniStreamingSpeechHandler(service, idle_timeout=0.5, config_timeout=0.5)  # type: ignore[arg-type]
        await handler.handle_session(WebSocket(scope, receive, send))

    try:
        asyncio.run(asyncio.wait_for(run(), SECONDS))
    except TimeoutError:
        sent.append("went on")
    return sent


def leaving() -> dict[str, Any]:
    """Leave while an utterance is made, in both forms; and send the next one meanwhile."""
    text = {"type": "input.text", "text": "Hi."}
    plain, streamed, both = Service(never=True), Service(never=True), Service()
    facts: dict[str, Any] = {"plain": _session(plain, [CONFIG, text, DONE])}
    config = CONFIG | {"stream_audio": True, "response_format": "pcm"}
    facts["streamed"] = _session(streamed, [config, text, DONE])
    _session(both, [CONFIG, text, DONE, text, DONE])
    return facts | {"given up": plain.given_up + streamed.given_up, "aborted": streamed.aborted, "spoken": both.spoken}


def frames() -> dict[str, Any]:
    """Send odd frames, each in a session of its own, between a configuration and an utterance."""
    odd = {
        "bytes": [b"\x00\xff"],
        "no JSON": ["{"],
        "too deep": ["[" * 100_000],
        "an endless number": ['{"type": ' + "9" * 5000 + "}"],
        "a list": ["[]"],
        "half a pair": [{"type": "input.text", "text": "a\ud800"}, DONE],
        "an unknown type": ['{"type": "\\ud800"}'],
    }
    good = [{"type": "input.text", "text": "Hi."}, DONE]
    told = {name: _session(Service(), [CONFIG, *frame, *good]) for name, frame in odd.items()}
    endless = [{"type": "input.text", "text": "a" * 10_000}] * 20
    told["endless text"] = _session(Service(), [CONFIG, *endless, *good])
    told["idle"] = _session(Service(), [CONFIG, *good], stay=True)
    told["silent"] = _session(Service(), [], stay=True)
    told["wrong order"] = _session(Service(), [*good, CONFIG])
    return {name: [word for word in words if not word.startswith("audio.")] for name, words in told.items()}


def sessions() -> dict[str, Any]:
    return {**leaving(), **frames()}
