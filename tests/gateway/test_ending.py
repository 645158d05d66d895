"""An engine killed in the midst of a stream: the stream breaks visibly, the model is not ready, the other goes on."""

import json
import os
import signal
from contextlib import suppress

import httpx
import pytest
from test_sessions import talking
from websockets.exceptions import ConnectionClosed

from conftest import RECOGNITION, SPEECH
from firstword.acceptance.recording import vowels

LONG = "This takes a while to say, and somebody waits for every word of it. " * 4
BODY = {"model": SPEECH[0], "input": LONG, "voice": "ryan", "response_format": "pcm", "stream_format": "audio"}


def test_a_killed_engine(stack, gateway):
    session = {name: BODY[name] for name in ("model", "voice", "response_format")} | {"stream_audio": True}
    with talking(gateway, **session) as socket, gateway.http.stream("POST", "/v1/audio/speech", json=BODY) as answer:
        pieces = answer.iter_raw()
        assert next(pieces)
        socket.send(json.dumps({"type": "input.text", "text": LONG}))
        socket.send(json.dumps({"type": "input.done"}))
        while not isinstance(socket.recv(timeout=120), bytes):
            pass
        os.kill(stack.speech.api_server(), signal.SIGKILL)
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            list(pieces)
        told = []
        with suppress(ConnectionClosed):
            while True:
                told.append(socket.recv(timeout=10))
        assert socket.close_code == 1011
        assert [json.loads(each)["type"] for each in told if isinstance(each, str)] == ["error", "audio.done"]
    refused = gateway.http.post("/v1/audio/speech", json=BODY)
    # The port of a process that is just being ended may still take a request; then it breaks off unanswered.
    told = (refused.status_code, refused.json()["error"]["code"])
    assert told in ((503, "model_not_ready"), (502, "upstream_broke"))
    models = gateway.wait(503)["models"]
    assert models[SPEECH[0]]["state"] == "not_ready"
    assert models[RECOGNITION[0]]["state"] == "ready"
    listed = {model["id"]: model["ready"] for model in gateway.http.get("/v1/models").json()["data"]}
    assert listed == {SPEECH[0]: False, RECOGNITION[0]: True}
    with gateway.client(RECOGNITION[0]) as client:
        assert client.transcribe(vowels()).text
    broken = [line for line in gateway.lines() if line.get("outcome") == "upstream_broke"]
    assert [(line["status"], line["model"]) for line in broken] == [(200, SPEECH[0])] * 2
