"""``/openapi.json``: it tells the truth, which requests made from it show."""

import pytest

from fake_engine import FakeEngine
from gateway_kit import running
from schemathesis_run import pinned, run

QWEN, STEP = "qwen3-tts-customvoice-synthetic", "step-audio-2-mini-synthetic"
KEY = "sk-of-a-schema"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, FakeEngine(QWEN) as qwen, FakeEngine(STEP) as step:
        patch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path_factory.mktemp("run")))
        with running(qwen.url, step.url, api_keys=KEY) as gateway:
            gateway.http.headers["authorization"] = f"Bearer {KEY}"
            gateway.wait()
            yield gateway


@pytest.fixture(scope="module")
def document(gateway):
    return gateway.http.get("/openapi.json").json()


def test_every_route_is_told_with_its_body_and_its_errors(document):
    paths = document["paths"]
    assert set(paths) >= {
        *("/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/chat/completions"),
        *("/v1/audio/voices", "/v1/models", "/v1/models/{model}", "/health", "/ready", "/metrics"),
    }
    speech = paths["/v1/audio/speech"]["post"]
    body = speech["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["model", "input"]
    assert body["additionalProperties"] is False
    assert {"audio/mpeg", "audio/wav", "text/event-stream"} <= set(speech["responses"]["200"]["content"])
    form = paths["/v1/audio/transcriptions"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert set(form["required"]) == {"model", "file"}
    assert "language" in form["properties"]
    translation = paths["/v1/audio/translations"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert "language" not in translation["properties"]
    problem = speech["responses"]["429"]["content"]["application/json"]["schema"]["$ref"]
    assert problem == "#/components/schemas/Problem"
    assert "HTTPValidationError" not in str(document)
    voices = paths["/v1/audio/voices"]
    assert voices["get"]["description"].startswith("List voices")
    sample = voices["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert set(sample["required"]) == {"name", "consent", "audio_sample"}
    assert {"409", "413"} <= set(voices["post"]["responses"])
    assert "404" in paths["/v1/audio/voices/{voice}"]["delete"]["responses"]


def test_the_key_is_told(gateway, document):
    assert document["security"] == [{"key": []}]
    assert document["paths"]["/health"]["get"]["security"] == []
    assert gateway.http.get("/openapi.json", headers={"authorization": ""}).status_code == 401


def test_requests_made_from_it(gateway, document, tmp_path):
    everything = {"speech": [QWEN, STEP, "tts-1"], "completions": [STEP]}
    recognising = {name: [STEP, "whisper-1"] for name in ("transcriptions", "translations")}
    # What a chat may hold is the engine's to say: real ones are asked so in tests/gateway.
    words = ("--phases", "fuzzing", "--max-examples", "8", "--exclude-path", "/v1/chat/completions")
    run(pinned(document, **everything, **recognising), gateway.url, KEY, tmp_path, *words)
