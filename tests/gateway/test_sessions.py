"""``WS /v1/audio/speech/stream`` before real engines: it says what the other routes say, until one leaves."""

import json
from contextlib import contextmanager

import pytest
from gateway_process import KEY
from websockets.sync.client import connect

from conftest import RECOGNITION, SPEECH
from firstword.acceptance.asking import Server
from firstword.acceptance.judge import judge_speech

TEXT = "Please bring the blue chair to the second room."
LONG = "This takes a while to say, and somebody waits for every word of it. " * 4


@contextmanager
def talking(gateway, **config):
    url = gateway.url.replace("http", "ws") + "/v1/audio/speech/stream"
    with connect(url, additional_headers={"authorization": f"Bearer {KEY}"}, proxy=None) as socket:
        socket.send(json.dumps({"type": "session.config", **config}))
        yield socket


def say(socket, *pieces):
    """Return the events of an utterance and its frames of sound."""
    for piece in pieces:
        socket.send(json.dumps({"type": "input.text", "text": piece}))
    socket.send(json.dumps({"type": "input.done"}))
    told, frames = [], []
    while not told or told[-1]["type"] != "session.done":
        message = socket.recv(timeout=120)
        if isinstance(message, bytes):
            frames.append(message)
        else:
            told.append(json.loads(message))
    return told, frames


@pytest.mark.parametrize(("model", "voice"), [(SPEECH[0], "ryan"), (RECOGNITION[0], "default")])
def test_the_same_samples_as_from_the_engine(stack, gateway, model, voice):
    (engine,) = [each for each in stack.engines if each.model == model]
    with engine.client() as direct:
        wanted = direct.speech_stream(TEXT, voice=voice, seed=3).body
    with talking(gateway, model=model, voice=voice, seed=3, response_format="pcm", stream_audio=True) as socket:
        told, frames = say(socket, *(f"{word} " for word in TEXT.split()))
    assert [event["type"] for event in told] == ["audio.start", "audio.done", "session.done"]
    assert told[0]["sentence_text"] == TEXT
    assert len(frames) > 2
    assert b"".join(frames) == wanted


def test_utterance_after_utterance_by_an_alias_in_one_frame_each(gateway):
    with talking(gateway, model="tts-1", voice="alloy", response_format="mp3") as socket:
        for _ in range(2):
            told, frames = say(socket, TEXT)
            assert told[1]["total_bytes"] == len(frames[0])
            verdict = judge_speech(frames[0], fmt="mp3", text=TEXT)
            assert verdict.ok, str(verdict)
            assert len(frames) == 1


def test_what_the_engine_refuses_is_told_and_the_session_goes_on(gateway):
    with talking(gateway, model="tts-1", voice="nobody") as socket:
        told, frames = say(socket, TEXT)
        assert [event["type"] for event in told] == ["audio.start", "error", "audio.done", "session.done"]
        assert "nobody" in told[1]["message"]
        assert frames == []
        socket.send(json.dumps({"type": "session.config", "model": "tts-1", "voice": "nova"}))
        assert say(socket, TEXT)[1]


def test_leaving_ends_the_engines_work(stack, gateway):
    mark = stack.speech.log_size()
    with talking(gateway, model="tts-1", voice="alloy", response_format="pcm", stream_audio=True) as socket:
        for message in ({"type": "input.text", "text": LONG}, {"type": "input.done"}):
            socket.send(json.dumps(message))
        while not isinstance(socket.recv(timeout=120), bytes):
            pass
    stack.speech.wait_for_log("[Orchestrator] Aborted request(s)", mark, seconds=2)
    assert Server(stack.speech.url).load().requests == 0
