"""A synchronous client for an engine or the gateway: what a user's program would send. Needs httpx.

Answers are returned as they came; whether they are good is `firstword.acceptance.judge`'s business.
"""

import base64
import json
import socket
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Any, Self, cast

import httpx

from firstword import documents
from firstword.acceptance import events, plain
from firstword.acceptance.answers import Chunk, Reply, Speech
from firstword.acceptance.errors import (
    ApiError,
    ClientError,
    MalformedError,
    TimedOutError,
    UnknownHostError,
    UnreachableError,
)

# A whole answer may take so many times as long as the silence after which it is given up.
PATIENCE = 10.0
TRANSCRIBE = "Write down what is said in this recording, and nothing else."


class Client:
    """One server's API, as OpenAI defines it, with vLLM-Omni's additions as keyword arguments.

    Args:
        base_url: ``http://host:port``, with or without ``/v1``.
        api_key: Sent as a bearer token; None sends none.
        timeout: Seconds without a byte after which a request is given up; a whole answer may take ten times as long.
        model: The model asked for when a call names none; None asks the server for its first.

    Every call raises `ApiError`, `MalformedError`, `UnreachableError` or `TimedOutError`.
    """

    def __init__(
        self, base_url: str, api_key: str | None = None, timeout: float = 120.0, *, model: str | None = None
    ) -> None:
        # A proxy set for the machine's downloads must not come between a probe and its own host.
        with _one_line_errors():
            self._http = httpx.Client(
                base_url=base_url.rstrip("/").removesuffix("/v1"),
                headers=plain.authorization(api_key),
                timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
                # vLLM's server closes what is idle for 5 s, httpx's own default: a request could meet that.
                limits=httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2.0),
                trust_env=False,
                event_hooks={"response": [self._bound]},
            )
        self._longest = PATIENCE * timeout
        self._model = model

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def model(self) -> str:
        """The model asked for when a call names none."""
        if self._model is None:
            listed = self.models()
            if not listed:
                raise ClientError("/v1/models lists no model")
            self._model = listed[0]
        return self._model

    def health(self) -> None:
        """Raise unless ``/health`` answers 200."""
        self._get("/health")

    def models(self) -> list[str]:
        """Return the ids that ``/v1/models`` lists."""
        with _shape("/v1/models"):
            return [_text(entry["id"]) for entry in _json(self._get("/v1/models").content)["data"]]

    def voices(self) -> list[str]:
        """Return the model's voices that ``/v1/audio/voices`` lists; an engine, with one model, ignores the name."""
        with _shape("/v1/audio/voices"):
            listed = _json(self._get("/v1/audio/voices", model=self.model).content)["voices"]
            return [_text(voice if isinstance(voice, str) else voice["id"]) for voice in listed]

    def metrics(self) -> str:
        """Return ``/metrics`` in Prometheus's text format."""
        return self._get("/metrics").text

    def speech(self, text: str, *, fmt: str = "wav", **fields: Any) -> Speech:
        """Say ``text``; ``fields`` go into the request as they are (``voice``, ``seed``, ``instructions``, …)."""
        start = time.perf_counter()
        with self._posting("/v1/audio/speech", self._speech_body(text, fmt, fields)) as response:
            body = response.read()
        seconds = time.perf_counter() - start
        return Speech(body, response.headers.get("content-type"), seconds, (Chunk(seconds, body),))

    def speech_stream(self, text: str, *, fmt: str = "pcm", sse: bool = False, **fields: Any) -> Speech:
        """Say ``text``, streamed as raw bytes or, with ``sse``, as OpenAI's ``speech.audio.*`` events."""
        start = time.perf_counter()
        chunks: list[Chunk] = []
        facts: dict[str, Any] = {}
        with closing(self.iter_speech(text, fmt=fmt, sse=sse, facts=facts, **fields)) as stream:
            chunks.extend(stream)
        body = b"".join(chunk.data for chunk in chunks)
        seconds = time.perf_counter() - start
        return Speech(body, facts.get("content_type"), seconds, tuple(chunks), facts.get("usage") or {})

    def iter_speech(
        self, text: str, *, fmt: str = "pcm", sse: bool = False, facts: dict[str, Any] | None = None, **fields: Any
    ) -> Generator[Chunk]:
        """Yield the chunks of streamed speech as they arrive; closing the iterator drops the connection.

        Args:
            text: What to say.
            fmt: ``pcm`` or ``wav``.
            sse: Events instead of raw bytes.
            facts: Filled with ``content_type``, and with ``usage`` where the server sends it.
            **fields: Further fields of the request.
        """
        facts = {} if facts is None else facts
        body = self._speech_body(text, fmt, {"stream_format": "sse" if sse else "audio", "stream": True, **fields})
        start = time.perf_counter()
        with _shape("the stream of /v1/audio/speech"), self._posting("/v1/audio/speech", body) as response:
            facts["content_type"] = response.headers.get("content-type")
            if not sse:
                for data in response.iter_raw():
                    yield Chunk(time.perf_counter() - start, data)
                return
            for event in events.read(response.iter_lines()):
                kind = event.get("type") if isinstance(event, dict) else None
                if kind == "speech.audio.delta":
                    yield Chunk(time.perf_counter() - start, base64.b64decode(event["audio"]))
                elif kind == "speech.audio.done":
                    facts["usage"] = event.get("usage")
                    return
                else:
                    raise ApiError.from_object(response.status_code, event)
            raise UnreachableError("the stream ended without speech.audio.done")

    def transcribe(
        self, audio: bytes, *, fmt: str = "wav", prompt: str = TRANSCRIBE, stream: bool = False, **fields: Any
    ) -> Reply:
        """Ask for the text of a recording, through chat completions with ``input_audio``.

        vLLM-Omni 0.26 has no ``/v1/audio/transcriptions`` for Step-Audio-2.
        """
        part = {"type": "input_audio", "input_audio": {"data": base64.b64encode(audio).decode(), "format": fmt}}
        messages = [{"role": "user", "content": [{"type": "text", "text": prompt}, part]}]
        # Stock 0.26 answers 400 without it, "no audio was produced"; and token2wav need not be asked.
        fields = {"modalities": ["text"], **fields}
        return self.chat_stream(messages, **fields) if stream else self.chat(messages, **fields)

    def chat(self, messages: Sequence[dict[str, Any]], **fields: Any) -> Reply:
        """Return one chat answer; with ``modalities`` holding ``audio``, its sound as well."""
        start = time.perf_counter()
        with self._posting("/v1/chat/completions", {"model": self.model, "messages": messages, **fields}) as response:
            document = _json(response.read())
        seconds = time.perf_counter() - start
        text, reason, audio = None, None, None
        with _shape("/v1/chat/completions"):
            for choice in document["choices"]:
                message = choice["message"]
                sound = message.get("audio")
                if sound:
                    data = base64.b64decode(sound["data"])
                    audio = Speech(data, None, seconds, (Chunk(seconds, data),), document.get("usage") or {})
                if message.get("content") is not None or not sound:
                    text, reason = _text_or_none(message.get("content")), choice["finish_reason"]
                reason = reason or choice["finish_reason"]
        return Reply(text, reason, audio, document.get("usage") or {}, seconds)

    def chat_stream(self, messages: Sequence[dict[str, Any]], **fields: Any) -> Reply:
        """Return one chat answer that was streamed; the arrival of each piece of sound is kept."""
        body = {"model": self.model, "messages": messages, "stream": True, **fields}
        start = time.perf_counter()
        texts: list[str] = []
        chunks: list[Chunk] = []
        usage: dict[str, Any] = {}
        reason, ended = None, False
        with _shape("the stream of /v1/chat/completions"), self._posting("/v1/chat/completions", body) as response:
            for event in events.read(response.iter_lines()):
                if event == events.DONE:
                    ended = True
                    break
                if "error" in event:
                    raise ApiError.from_object(response.status_code, event)
                usage = event.get("usage") or usage
                for choice in event["choices"]:
                    reason = choice.get("finish_reason") or reason
                    delta = choice.get("delta") or {}
                    # vLLM-Omni sends sound as base64 text and says so in ``modality``; OpenAI in ``delta.audio``.
                    sound = (delta.get("audio") or {}).get("data")
                    if sound is None and event.get("modality") == "audio":
                        sound = delta.get("content")
                    if sound:
                        chunks.append(Chunk(time.perf_counter() - start, base64.b64decode(sound)))
                    elif delta.get("content") and event.get("modality") != "audio":
                        texts.append(_text(delta["content"]))
        if not ended:
            raise UnreachableError("the stream ended without [DONE]")
        seconds = time.perf_counter() - start
        audio = None
        if chunks:
            audio = Speech(b"".join(chunk.data for chunk in chunks), None, seconds, tuple(chunks))
        return Reply("".join(texts) if texts else None, reason, audio, usage, seconds, len(texts))

    def _bound(self, response: httpx.Response) -> None:
        response.stream = _Bounded(cast("Iterable[bytes]", response.stream), self._longest)

    def _speech_body(self, text: str, fmt: str, fields: dict[str, Any]) -> dict[str, Any]:
        return {"model": self.model, "input": text, "response_format": fmt, **fields}

    def _get(self, path: str, **query: str) -> httpx.Response:
        with _one_line_errors():
            response = self._http.get(path, params=query)
        if response.status_code != 200:
            raise ApiError.from_body(response.status_code, response.content)
        return response

    @contextmanager
    def _posting(self, path: str, body: dict[str, Any]) -> Iterator[httpx.Response]:
        with _one_line_errors(), self._http.stream("POST", path, json=body) as response:
            if response.status_code != 200:
                raise ApiError.from_body(response.status_code, response.read())
            yield response


def _json(body: bytes) -> Any:
    try:
        return documents.parse_json(body)
    except ValueError as error:
        raise MalformedError(f"the answer is not JSON: {body[:80]!r}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{json.dumps(value)[:80]} where a text belongs")
    return value


def _text_or_none(value: Any) -> str | None:
    return value if value in (None, "") else _text(value)


@contextmanager
def _shape(what: str) -> Iterator[None]:
    """Turn what reading an answer of another shape raises into a `MalformedError`."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        detail = f"no {error}" if isinstance(error, KeyError) else f"{error}"
        raise MalformedError(f"{what} answers in another shape than OpenAI's API ({detail})") from error


class _Bounded(httpx.SyncByteStream):
    """A body that must end in time: a server that sends a byte now and then would otherwise never be given up."""

    def __init__(self, stream: Iterable[bytes], seconds: float) -> None:
        self._stream, self._seconds = stream, seconds

    def __iter__(self) -> Iterator[bytes]:
        deadline = time.monotonic() + self._seconds
        for data in self._stream:
            if time.monotonic() > deadline:
                raise TimedOutError(f"an answer that has not ended after {self._seconds:g} s")
            yield data

    def close(self) -> None:
        if isinstance(self._stream, httpx.SyncByteStream):
            self._stream.close()


def _root(error: BaseException) -> BaseException:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return error


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException as error:
        raise TimedOutError(f"no answer in time ({type(error).__name__})") from error
    except httpx.ConnectError as error:
        # httpx keeps the resolver's words only.
        if isinstance(_root(error), socket.gaierror):
            raise UnknownHostError(f"no host is called {error.request.url.host}") from error
        raise UnreachableError(str(error) or type(error).__name__) from error
    except httpx.TransportError as error:
        raise UnreachableError(str(error) or type(error).__name__) from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise ClientError(str(error)) from error
