"""What the gateway answers by itself: its surface, its errors in OpenAI's shape, keys and limits."""

import threading

import httpx
import pytest

from fake_engine import FakeEngine
from firstword.gateway import errors
from gateway_kit import formatted, running

SPEECH = "/v1/audio/speech"
CHAT = "/v1/chat/completions"
QWEN = "qwen3-tts-customvoice-synthetic"
STEP = "step-audio-2-mini-synthetic"


@pytest.fixture(scope="module")
def engines():
    with FakeEngine(QWEN) as qwen, FakeEngine(STEP) as step:
        step.voices = []
        yield qwen, step


@pytest.fixture(scope="module")
def gateway(engines, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path_factory.mktemp("run")))
        with running(*(engine.url for engine in engines), body_limit=1000) as gateway:
            gateway.wait()
            yield gateway


def problem(answer, status):
    """Return OpenAI's error object, whole."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert error["type"] == ("server_error" if status >= 500 else "invalid_request_error")
    return error


def test_requests_go_by_their_model(gateway, engines):
    qwen, step = engines
    qwen.bodies.clear()
    step.bodies.clear()
    body = {"model": QWEN, "input": "Hello.", "response_format": "wav", "seed": 3, "extra_params": {"top_k": 1}}
    assert gateway.http.post(SPEECH, json=body).status_code == 200
    body |= {"response_format": "pcm", "stream_format": "sse"}
    message = {"model": STEP, "messages": [], "modalities": ["text"]}
    assert gateway.http.post(CHAT, json=message).json()["choices"][0]["message"]["content"] == step.text
    assert (qwen.bodies, step.bodies) == ([body], [message])


def test_a_request_without_a_model_lists_them(gateway):
    for body in ({}, {"model": None}, {"model": ""}, {"model": 3}):
        error = problem(gateway.http.post(SPEECH, json=body), 400)
        assert error["param"] == "model"
        assert QWEN in error["message"]
        assert STEP in error["message"]


def test_an_unknown_model_is_not_found(gateway):
    error = problem(gateway.http.post(CHAT, json={"model": "gpt-4o"}), 404)
    assert error["code"] == "model_not_found"
    assert "The model `gpt-4o` does not exist" in error["message"]


def test_models_are_listed_and_described(gateway):
    listed = gateway.http.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == [QWEN, STEP]
    model = listed["data"][0]
    assert model == gateway.http.get(f"/v1/models/{QWEN}").json()
    assert (model["object"], model["family"], model["kind"]) == ("model", "qwen3-tts", "custom_voice")
    assert model["licence"] == "Apache-2.0"
    assert model["ready"] is True
    assert "en" in model["languages"]
    assert isinstance(model["created"], int)
    assert problem(gateway.http.get("/v1/models/org/none"), 404)["code"] == "model_not_found"


def test_voices_are_the_engines_own_with_what_the_catalogue_knows(gateway):
    voices = gateway.http.get("/v1/audio/voices").json()["voices"]
    assert voices == [
        {"id": "ryan", "name": "Ryan", "model": QWEN, "languages": ["en"], "owned_by": "system"},
        {"id": "vivian", "name": "Vivian", "model": QWEN, "languages": ["zh"], "owned_by": "system"},
    ]
    assert gateway.http.get("/v1/audio/voices?names=true").json() == {"voices": ["ryan", "vivian"]}
    assert gateway.http.get("/v1/audio/voices", params={"model": STEP}).json() == {"voices": []}
    assert problem(gateway.http.get("/v1/audio/voices?model=none"), 404)["code"] == "model_not_found"
    assert problem(gateway.http.get("/v1/audio/voices?names=perhaps"), 400)["param"] == "names"


def test_an_uploaded_voice_has_the_models_languages(gateway, engines):
    engines[0].voices.append("somebody")
    try:
        voice = gateway.http.get("/v1/audio/voices", params={"model": QWEN}).json()["voices"][-1]
    finally:
        engines[0].voices.remove("somebody")
    assert (voice["id"], voice["name"]) == ("somebody", "somebody")
    assert len(voice["languages"]) == 10


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/audio/speech/",
        "/v1/audio/speech/batch",
        "/v1/audio/transcriptions/",
        "/v1/omni/sleep",
        "/v1/omni/wakeup",
        "/sleep",
        "/tokenize",
        "/start_profile",
        "/metrics/",
        "/docs",
        "/v1//audio/speech",
        "/v1/audio/../omni/sleep",
        "/v1/audio/%2e%2e/omni/sleep",
    ],
)
def test_nothing_else_is_reachable(gateway, engines, path):
    for engine in engines:
        engine.asked.clear()
    for method in ("GET", "POST", "PUT", "DELETE"):
        answer = gateway.http.request(method, path, json={"model": QWEN})
        assert problem(answer, 404)["code"] == "unknown_url"
    looked = {"/health", "/v1/models", "/metrics"}  # what the gateway itself looks at
    assert not {path for engine in engines for path in engine.asked} - looked


@pytest.mark.parametrize(
    ("method", "path"), [("GET", SPEECH), ("PUT", CHAT), ("POST", "/v1/models"), ("DELETE", "/ready")]
)
def test_another_method_is_not_allowed(gateway, method, path):
    answer = gateway.http.request(method, path)
    assert problem(answer, 405)["code"] == "method_not_allowed"
    assert answer.headers["allow"]


def test_a_body_over_the_limit_is_refused_announced_or_not(gateway):
    long = b'{"model": "' + b"x" * 2000 + b'"}'
    kind = {"content-type": "application/json"}
    pieces = (long[i : i + 100] for i in range(0, len(long), 100))
    for content in (long, pieces):
        error = problem(gateway.http.post(SPEECH, content=content, headers=kind), 413)
        assert "1000 bytes" in error["message"]
    assert gateway.http.get("/health").status_code == 200


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'"x"', b"null", b"\xff\xfe", b'{"model": "\xff"}', b"[" * 900, b'{"a":' * 199, b"{'a': 1}"],
)
def test_garbage_is_refused(gateway, content):
    answer = gateway.http.post(SPEECH, content=content, headers={"content-type": "application/json"})
    assert problem(answer, 400)["code"] == "invalid_json"


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "multipart/form-data; boundary=x"},
        {},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
def test_what_is_not_json_by_its_type_is_refused(gateway, headers):
    problem(gateway.http.post(SPEECH, content=b'{"model": "x"}', headers=headers), 415)


def test_a_body_of_a_million_values_is_refused_before_it_is_read(engines, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))
    with running(engines[0].url) as gateway:
        body = b'{"model": "m", "x": [' + b"[]," * 600_000 + b"[]]}"
        answer = gateway.http.post(SPEECH, content=body, headers={"content-type": "application/json"})
        assert "too many values" in problem(answer, 400)["message"]


@pytest.fixture(scope="module")
def guarded(engines, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path_factory.mktemp("run")))
        with running(engines[0].url, api_keys="sk-one,sk-two") as gateway:
            gateway.wait()  # needs no key
            yield gateway


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models",
        "/v1/audio/voices",
        "/nowhere",
        "/metrics",
        SPEECH,
        "/",
        "/healthz",
        "/health/",
        "/ready/x",
        "/v1/health",
    ],
)
def test_without_a_key_everything_but_health_is_closed(guarded, path):
    for header, code in (
        (None, "missing_api_key"),
        ("Basic c2stb25l", "missing_api_key"),
        ("Bearer", "missing_api_key"),
    ):
        answer = guarded.http.get(path, headers={"authorization": header} if header else {})
        assert problem(answer, 401)["code"] == code
        assert answer.headers["www-authenticate"] == "Bearer"
    for key in ("sk-three", "sk-on", "sk-one,sk-two", "ü".encode("latin-1")):
        value = b"Bearer " + key if isinstance(key, bytes) else f"Bearer {key}"
        answer = guarded.http.get(path, headers={"authorization": value})
        assert problem(answer, 401)["code"] == "invalid_api_key"
    assert guarded.http.get("/health").status_code == 200


def test_each_key_opens_it_and_no_engine_or_log_line_sees_one(guarded, engines):
    qwen = engines[0]
    qwen.headers.clear()
    for key in ("sk-one", "sk-two"):
        answer = guarded.http.post(
            SPEECH,
            json={"model": QWEN, "input": "A secret.", "response_format": "wav"},
            headers={"authorization": f"bearer {key}", "x-request-id": f"with-{key[3:]}"},
        )
        assert answer.status_code == 200
    assert [guarded.line(f"with-{which}")["status"] for which in ("one", "two")] == [200, 200]
    assert len(qwen.headers) == 2
    for text in (*map(str, qwen.headers), *map(formatted, guarded.lines)):
        assert "sk-" not in text
        assert "secret" not in text


def test_every_answer_carries_a_request_id(gateway, engines):
    qwen = engines[0]
    body = {"model": QWEN, "input": "Hi.", "response_format": "wav"}
    for path in ("/health", "/v1/models", "/nowhere"):
        assert len(gateway.http.get(path).headers["x-request-id"]) == 32
    assert gateway.http.post(SPEECH, json=body, headers={"x-request-id": "me-1"}).headers["x-request-id"] == "me-1"
    assert qwen.headers[-1]["x-request-id"] == "me-1"
    for insane in ("a b", "x" * 200, "-", '"', "ü".encode()):
        answer = gateway.http.post(SPEECH, json=body, headers={b"x-request-id": insane})
        assert len(answer.headers["x-request-id"]) == 32
        assert qwen.headers[-1]["x-request-id"] == answer.headers["x-request-id"]


def test_one_json_line_a_request(gateway):
    body = {"model": QWEN, "input": "Nobody may read this.", "response_format": "wav"}
    answer = gateway.http.post(SPEECH, json=body, headers={"x-request-id": "line"})
    speech = gateway.line("line")
    gateway.http.get("/v1/nowhere?key=hidden", headers={"x-request-id": "nowhere"})
    nowhere = gateway.line("nowhere")
    assert speech.pop("seconds") > 0
    assert speech.pop("at").endswith("+00:00")
    assert speech == {
        "level": "info",
        "event": "request",
        "request_id": "line",
        "method": "POST",
        "route": SPEECH,
        "model": QWEN,
        "status": 200,
        "outcome": "complete",
        "bytes": len(answer.content),
    }
    assert (nowhere["status"], nowhere["route"], nowhere["path"]) == (404, None, "/v1/nowhere")
    assert "hidden" not in str(nowhere)


def test_a_defect_is_a_500_in_the_same_shape_and_is_told_in_the_log(gateway, monkeypatch):
    monkeypatch.setattr(errors, "model_not_found", lambda *_: 1 / 0)
    error = problem(gateway.http.get("/v1/models/none", headers={"x-request-id": "defect"}), 500)
    assert "division" not in error["message"]
    assert (gateway.line("defect")["status"], gateway.line("defect")["route"]) == (500, "/v1/models/{model:path}")


def test_many_at_once(gateway):
    answers = []

    def ask():
        with httpx.Client(base_url=gateway.url, trust_env=False) as client:
            answers.append(client.post(SPEECH, json={"model": QWEN, "input": "x", "response_format": "wav"}))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["x-request-id"] for answer in answers}) == 16
