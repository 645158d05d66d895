"""The client over real HTTP: what it sends, what it returns, and how each failure is named."""

import socket

import pytest

from fake_engine import FakeEngine
from firstword.acceptance import events
from firstword.acceptance.client import Client
from firstword.acceptance.errors import ApiError, ClientError, TimedOutError, UnreachableError
from firstword.acceptance.judge import judge_speech
from sounds import to_pcm, to_wav, voice


@pytest.fixture
def engine():
    with FakeEngine() as engine:
        yield engine


@pytest.fixture
def client(engine):
    with Client(engine.url + "/v1", timeout=5) as client:
        yield client


def test_listings(engine, client):
    client.health()
    assert client.models() == [engine.model]
    assert client.voices() == ["ryan", "vivian"]
    assert "process_start_time_seconds" in client.metrics()


def test_plain_speech(engine, client):
    answer = client.speech("Hello", fmt="flac", voice="ryan", seed=7)
    assert engine.bodies == [
        {"model": engine.model, "input": "Hello", "response_format": "flac", "voice": "ryan", "seed": 7}
    ]
    assert judge_speech(answer.body, fmt="flac", text=None, content_type=answer.content_type).ok
    assert answer.first_audio == answer.seconds > 0


@pytest.mark.parametrize("sse", [False, True])
def test_streamed_speech(engine, client, sse):
    answer = client.speech_stream("Hello", sse=sse)
    assert answer.body == to_pcm(engine.speech)
    assert len(answer.chunks) >= 2
    assert 0 < answer.chunks[0].at < answer.chunks[-1].at <= answer.seconds
    assert answer.content_type == ("text/event-stream" if sse else "audio/pcm")
    assert answer.usage == ({"output_tokens": 37} if sse else {})


def test_streamed_wav_has_an_open_length(client):
    answer = client.speech_stream("Hello", fmt="wav")
    assert judge_speech(answer.body, fmt="wav", text=None, streamed=True).ok


def test_leaving_early_closes_the_connection(client):
    stream = client.iter_speech("Hello")
    next(stream)
    stream.close()
    client.health()


def test_transcription(engine, client):
    reply = client.transcribe(to_wav(voice()))
    (part,) = [part for part in engine.bodies[0]["messages"][0]["content"] if part["type"] == "input_audio"]
    assert part["input_audio"]["format"] == "wav"
    assert engine.bodies[0]["modalities"] == ["text"]
    assert (reply.text, reply.finish_reason, reply.audio) == (engine.text, "stop", None)
    streamed = client.transcribe(to_wav(voice()), stream=True)
    assert (streamed.text, streamed.finish_reason, streamed.deltas) == ("one two", "stop", 2)


def test_spoken_chat(engine, client):
    reply = client.chat([{"role": "user", "content": "Hi"}], modalities=["text", "audio"])
    assert reply.text == engine.text
    assert reply.audio.body == to_wav(engine.speech)
    streamed = client.chat_stream([{"role": "user", "content": "Hi"}], modalities=["audio"])
    assert streamed.audio.body == to_pcm(engine.speech)
    assert len(streamed.audio.chunks) == 3
    assert streamed.text is None


def test_an_error_in_openais_shape(engine, client):
    engine.error = 503
    with pytest.raises(ApiError, match="HTTP 503: it broke") as caught:
        client.speech("Hello", model="x")
    error = caught.value
    assert (error.status, error.type, error.param, error.code) == (503, "InternalServerError", None, 503)
    assert error.well_formed


def test_an_error_in_another_shape_is_told_apart(client):
    with pytest.raises(ApiError) as caught:
        client._get("/v1/nothing")
    assert not caught.value.well_formed
    assert caught.value.status == 404
    assert "Not Found" in caught.value.message


@pytest.mark.parametrize("body", [b"", b"<html>Bad Gateway</html>", b'{"error": "text"}', b'{"error": {}}', b"[]"])
def test_an_error_of_any_body(body):
    error = ApiError.from_body(502, body)
    assert error.status == 502
    assert not error.well_formed


def test_an_error_event_ends_the_stream(engine, client):
    event = b'event: speech.audio.error\ndata: {"type":"speech.audio.error","error":{"message":"gone"}}\n\n'
    engine.speech = event
    with pytest.raises(ApiError, match="gone"):
        client.speech_stream("Hello", sse=True)


@pytest.mark.parametrize("ask", ["speech", "chat"])
def test_a_stream_without_an_end_is_no_answer(engine, client, ask):
    engine.cut_stream = True
    with pytest.raises(UnreachableError, match="ended without"):
        client.speech_stream("Hello", sse=True) if ask == "speech" else client.transcribe(b"", stream=True)


def test_time_out(engine):
    engine.delay = 3
    with Client(engine.url, timeout=0.3) as client, pytest.raises(TimedOutError):
        client.speech("Hello")


def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with Client(url) as client, pytest.raises(UnreachableError):
            client.models()


def test_a_page_in_place_of_json(engine, client):
    engine.page = b"<html>Please log in</html>"
    with pytest.raises(ClientError, match=r"not JSON.*Please log in"):
        client.models()


def test_events():
    lines = ["event: a", 'data: {"x": 1}', "", ": comment", "data: [1,", "data: 2]", "", "data:[DONE]"]
    assert list(events.read(lines)) == [{"x": 1}, [1, 2], events.DONE]
