"""An engine killed in the midst of a stream: the stream breaks visibly, the model is not ready, the other goes on."""

import os
import signal

import httpx
import pytest

from conftest import RECOGNITION, SPEECH
from firstword.acceptance.recording import vowels

LONG = "This takes a while to say, and somebody waits for every word of it. " * 4
BODY = {"model": SPEECH[0], "input": LONG, "voice": "ryan", "response_format": "pcm", "stream_format": "audio"}


def test_a_killed_engine(stack, gateway):
    with gateway.http.stream("POST", "/v1/audio/speech", json=BODY) as answer:
        pieces = answer.iter_raw()
        assert next(pieces)
        os.kill(stack.speech.api_server(), signal.SIGKILL)
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            list(pieces)
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
    assert [(line["status"], line["model"]) for line in broken] == [(200, SPEECH[0])]
