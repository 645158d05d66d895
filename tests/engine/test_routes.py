"""Whatever is sent to whatever route: the client's mistake is told as one, and the engine goes on as it was."""

import json
import os

import httpx
import pytest
from listening import LOW
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from firstword.acceptance.judge import judge_speech, judge_transcript

SPEAKING = {
    "POST /v1/audio/speech",
    "POST /v1/audio/speech/batch",
    "GET /v1/audio/voices",
}
CLONING = {"POST /v1/audio/voices", "DELETE /v1/audio/voices/{name}"}
WRITING = {"POST /v1/chat/completions"}
SERVER = {"GET /health", "GET /ping", "POST /ping", "GET /version", "GET /load", "GET /metrics", "GET /v1/models"}

# What vLLM and vLLM-Omni bring besides, of every kind; some of it ended an engine, or put it to sleep.
CLOSED = {
    "GET": ("/v1/responses/x", "/v1/videos", "/v1/videos/x", "/v1/videos/x/content"),
    "DELETE": ("/v1/videos/x",),
    "POST": (
        "/v1/completions",
        "/v1/completions/render",
        "/v1/completions/derender",
        "/v1/chat/completions/batch",
        "/v1/chat/completions/render",
        "/v1/chat/completions/derender",
        "/v1/responses",
        "/v1/responses/x/cancel",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/audio/generate",
        "/v1/images/generations",
        "/v1/images/edits",
        "/v1/videos",
        "/v1/videos/sync",
        "/v1/omni/sleep",
        "/v1/omni/wakeup",
        "/inference/v1/generate",
        "/invocations",
        "/tokenize",
        "/detokenize",
        "/generative_scoring",
        "/scale_elastic_ep",
        "/is_scaling_elastic_ep",
    ),
}
UNKNOWN = ("/v1/embeddings", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/rerank", "/score", "/classify")


def engine_of(model, shape, *kinds):
    return pytest.param(set().union(*kinds), marks=pytest.mark.engine(model, shape), id=f"{model}-{shape}")


EACH = [
    engine_of("qwen3-tts-customvoice-synthetic", "cpu", SPEAKING, CLONING),
    engine_of("step-audio-2-mini-synthetic", "speech-cpu", SPEAKING, WRITING),
    engine_of("step-audio-2-mini-synthetic", "asr-cpu", WRITING),
]


@pytest.fixture
def http(engine):
    with httpx.Client(base_url=engine.url, timeout=60, trust_env=False) as http:
        yield http


@pytest.fixture(autouse=True)
def good_afterwards(engine):
    """The processes after a test are those before it, and they give a good answer of each kind."""
    before = engine.processes()
    yield
    with engine.client() as client:
        if not engine.shape.startswith("asr"):
            text = "This is said as if nothing had been."
            assert judge_speech(client.speech(text, fmt="pcm").body, fmt="pcm", text=text).ok
        if engine.model.startswith("step"):
            reply = client.transcribe(LOW)
            assert judge_transcript(reply.text, reply.finish_reason).ok
    assert engine.processes() == before


@pytest.mark.parametrize("served", EACH)
def test_a_model_serves_its_routes_and_no_other(engine, http, served):
    paths = http.get("/openapi.json").json()["paths"]
    assert {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods} == served | SERVER
    one_of_every_kind = {
        **{"model": engine.model, "prompt": "Hello.", "input": "Hello.", "query": "a", "items": ["b"]},
        **{"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 4, "stage_ids": [0]},
        **{"token_ids": [1, 2], "sampling_params": {"max_tokens": 3}, "label_token_ids": [1, 2]},
    }
    closed = [(method, path) for method, paths in CLOSED.items() for path in paths]
    if "POST /v1/chat/completions" not in served:
        closed.append(("POST", "/v1/chat/completions"))
    if "POST /v1/audio/speech" not in served:
        closed += [("POST", path) for path in ("/v1/audio/speech", "/v1/audio/speech/batch")]
    for method, path in closed:
        for body in (one_of_every_kind, {}):
            error = refused(http.request(method, path, json=body), 404)
            assert all(route in error["message"] for route in served)
    for path in UNKNOWN:
        refused(http.post(path, json=one_of_every_kind), 404)


def refused(answer, *statuses):
    """Return the error of an answer that has one of these statuses, in OpenAI's shape."""
    assert answer.status_code in statuses, f"{answer.request.method} {answer.request.url}: {answer.text}"
    error = answer.json()["error"]
    assert isinstance(error["message"], str)
    assert error["message"]
    assert error["code"] == answer.status_code
    return error


@pytest.mark.parametrize("served", EACH)
def test_a_body_that_is_no_request_is_told(http, served):
    for route in sorted(served):
        method, path = route.split()
        if method != "POST" or path == "/v1/audio/voices":
            continue
        for body in (b"[1]", b'"x"', b"5", b"null", b"{", b"\xff\xfe", b"", b"{}", b'{"model": "another"}'):
            answer = http.post(path, content=body, headers={"content-type": "application/json"})
            refused(answer, 400, 404, 422)


ODD_LISTS = (
    "x",
    {"max_tokens": 1},
    [1],
    [None],
    [{"max_tokens": "x"}],
    [{"max_tokens": -1}],
    [{"seed": "x"}],
    [{"seed": 2**70}],
    [{"stop_token_ids": [2**70]}],
    [{"nope": 1}],
    [{"output_kind": 7}],
    [{"logprobs": 5}],
    [{"max_tokens": 4}, {"temperature": "x"}],
    [{"max_tokens": 4}] * 3,
)


@pytest.mark.engine("step-audio-2-mini-synthetic", "speech-cpu")
def test_odd_sampling_parameters_are_refused(engine, http):
    body = {"model": engine.model, "messages": [{"role": "user", "content": "Hello."}], "modalities": ["text"]}
    for odd in ODD_LISTS:
        refused(http.post("/v1/chat/completions", json=body | {"sampling_params_list": odd}), 400)
    good = http.post("/v1/chat/completions", json=body | {"sampling_params_list": [{"max_tokens": 2}]}).json()
    assert good["usage"]["completion_tokens"] == 2


@pytest.mark.engine("step-audio-2-mini-synthetic", "speech-cpu")
def test_what_a_client_calls_its_request_does_not_matter(engine, http):
    """Its chunks travel in segments that once had this name."""
    messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "<tts_start>"}]
    body = {"model": engine.model, "messages": messages, "modalities": ["audio"], "max_tokens": 40, "seed": 1}
    body |= {"continue_final_message": True, "add_generation_prompt": False}
    sounds = set()
    for name in ("plain", "a/../../b", "../../../tmp/x", "x" * 300, f"{os.getpid()} \u00e9"):
        answer = http.post("/v1/chat/completions", json=body | {"request_id": name})
        assert answer.status_code == 200, answer.text
        sounds.add(json.dumps(answer.json()["choices"][-1]["message"]["audio"]["data"]))
    assert len(sounds) == 1


@pytest.mark.engine("step-audio-2-mini-synthetic", "speech-cpu")
def test_a_stop_string_ends_a_spoken_answer(engine, http):
    messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "<tts_start>"}]
    body = {"model": engine.model, "messages": messages, "modalities": ["text", "audio"], "max_tokens": 200, "seed": 1}
    body |= {"continue_final_message": True, "add_generation_prompt": False, "stop": ["a"]}
    answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["finish_reason"] == "stop"


def _say(socket, message):
    socket.send(message)
    return socket.recv(timeout=20)


SOCKET = "/v1/audio/speech/stream"
CLOSED_SOCKETS = (
    "/v1/realtime",
    "/v1/realtime/video",
    "/v1/realtime/robot/openpi",
    "/v1/duplex",
    "/v1/video/chat/stream",
)


@pytest.mark.engine("qwen3-tts-customvoice-synthetic", "cpu")
@pytest.mark.usefixtures("same_processes")
def test_odd_messages_on_the_web_socket_are_told(engine):
    odd = ["x", "[1]", "{}", '{"type": 5}', '{"type": "input.text"}', '{"type": "session.config", "speed": "x"}']
    odd += [b"\x00\xff", "[" * 100_000, '{"type": "\\ud800"}']
    for message in odd:
        with connect(f"ws://127.0.0.1:{engine.port}{SOCKET}") as socket:
            assert json.loads(_say(socket, message))["type"] == "error"
    with connect(f"ws://127.0.0.1:{engine.port}{SOCKET}") as socket, pytest.raises(ConnectionClosed, match="1009"):
        _say(socket, "x" * 17_000_000)
    for path in CLOSED_SOCKETS:
        with pytest.raises(InvalidStatus, match="403"), connect(f"ws://127.0.0.1:{engine.port}{path}"):
            pass
