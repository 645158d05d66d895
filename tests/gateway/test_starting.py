"""While the engines start: alive, not ready, and every request told so."""

import pytest

BODY = {"model": "qwen3-tts-customvoice-synthetic", "input": "Too early.", "response_format": "wav"}


def test_alive_and_not_ready(starting):
    assert starting.gateway.http.get("/health").status_code == 200
    answer = starting.gateway.wait(503)
    assert [upstream["state"] for upstream in answer["upstreams"]] == ["starting", "starting"]


def test_a_request_is_told_to_come_back(starting):
    answer = starting.gateway.http.post("/v1/audio/speech", json=BODY)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "model_not_ready"
    assert answer.headers["retry-after"] == "1"


def test_ready_is_said_after_a_real_answer_of_each_engine(stack):
    answer = stack.gateway.ready().json()
    assert {name: model["state"] for name, model in answer["models"].items()} == {
        engine.model: "ready" for engine in stack.engines
    }


@pytest.mark.parametrize("which", ["speech", "recognition"])
def test_it_was_this_gateway_that_asked(stack, which):
    """Its state tells the answers that it has judged."""
    engine = getattr(stack, which)
    states = [file.read_text() for file in engine.run_dir.rglob("gateway/**/*.json") if f"{engine.port}" in file.name]
    assert len(states) == 1
    assert "s of audio" in states[0]
    assert ("transcription" in states[0]) == (which == "recognition")
