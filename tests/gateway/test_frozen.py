"""A frozen engine stops being ready, and is ready again once it goes on."""

from gateway_process import GatewayProcess

from conftest import SPEECH


def test_a_frozen_engine_stops_being_ready(stack):
    hasty = {"READY_FRESH": "1", "READY_TIMEOUT": "8"}
    with GatewayProcess(stack.speech.run_dir, [stack.speech], "hasty-gateway", **hasty) as gateway:
        gateway.wait(200)
        with stack.speech.frozen():
            stack.speech.client().health()  # says 200 all the while
            models = gateway.wait(503)["models"]
            assert models[SPEECH[0]]["state"] == "not_ready"
            answer = gateway.http.post("/v1/audio/speech", json={"model": SPEECH[0], "input": "Anybody there?"})
            assert answer.status_code == 503
            assert "no answer in time" in answer.json()["error"]["message"]
        gateway.wait(200)
