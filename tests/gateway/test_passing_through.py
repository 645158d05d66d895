"""What real engines say comes through unchanged, and what they must not be asked stays closed."""

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest
from gateway_process import KEY
from test_routes import CLOSED  # the engine tests' own list

from conftest import RECOGNITION, SPEECH
from firstword.acceptance import probe
from firstword.acceptance.asking import Server
from firstword.acceptance.judge import judge_speech
from firstword.acceptance.recording import vowels

MODEL = SPEECH[0]
TEXT = "A word about the weather, please."
LONG = "This takes a while to say, and somebody waits for every word of it. " * 2


@pytest.fixture
def client(gateway):
    with gateway.client(MODEL) as client:
        yield client


@pytest.fixture
def direct(stack):
    with stack.speech.client() as client:
        yield client


def test_the_same_bytes_as_from_the_engine(client, direct):
    streamed = [each.speech_stream(TEXT, voice="ryan", seed=3) for each in (client, direct)]
    assert streamed[0].body == streamed[1].body
    assert streamed[0].content_type == streamed[1].content_type
    assert client.speech(TEXT, fmt="wav", voice="ryan", seed=3).body[44:] == streamed[0].body
    events = [each.speech_stream(TEXT, voice="ryan", seed=3, sse=True) for each in (client, direct)]
    assert events[0].body == events[1].body == streamed[0].body
    assert events[0].usage == events[1].usage


def test_the_first_chunk_comes_while_the_engine_goes_on(client, stack):
    chunks = client.iter_speech(LONG, voice="ryan", seed=3)
    next(chunks)
    assert Server(stack.speech.url).load().requests == 1
    assert len(list(chunks)) > 5


def test_a_client_that_leaves_ends_the_engines_work(client, stack, gateway):
    def left():
        return [line for line in gateway.lines() if line.get("outcome") == "client_left"]

    mark, before = stack.speech.log_size(), len(left())
    with closing(client.iter_speech(LONG, voice="ryan", seed=5)) as chunks:
        next(chunks)
    stack.speech.wait_for_log("[Orchestrator] Aborted request(s)", mark, seconds=2)
    assert judge_speech(client.speech(TEXT, voice="ryan").body, fmt="wav", text=TEXT).ok
    assert Server(stack.speech.url).load().requests == 0
    assert len(left()) - before == 1


def test_voices_are_the_engines(gateway, direct):
    everyone = gateway.http.get("/v1/audio/voices").json()["voices"]
    voices = [voice for voice in everyone if voice["model"] == MODEL]
    assert sorted(voice["id"] for voice in voices) == sorted(direct.voices())
    assert all(voice["name"] != voice["id"] for voice in voices)  # the catalogue knows each
    assert gateway.http.get("/v1/audio/voices", params={"model": MODEL}).json()["voices"] == voices
    # Step-Audio-2's one voice answers to OpenAI's names too.
    assert {"default", "alloy"} <= {voice["id"] for voice in everyone if voice["model"] == RECOGNITION[0]}


# What the gateway answers itself, by the engines' names for it.
OWN = {
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/v1/models"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/audio/speech"),
    ("GET", "/v1/audio/voices"),
    ("POST", "/v1/audio/voices"),
    ("DELETE", "/v1/audio/voices/{name}"),
}
# What vLLM and vLLM-Omni bring besides: closed by our patches, open in a stock engine, or of development servers.
UNLISTED = {(method, path) for method, paths in CLOSED.items() for path in paths} | {
    ("POST", "/sleep"),
    ("POST", "/wake_up"),
    ("POST", "/start_profile"),
    ("POST", "/stop_profile"),
    ("POST", "/reset_prefix_cache"),
    ("POST", "/collective_rpc"),
    ("POST", "/v1/load_lora_adapter"),
    ("GET", "/server_info"),
    ("GET", "/docs"),
    ("POST", "/metrics"),
}


def routes_of(engine):
    """Return every method and path that an engine says it has."""
    listed = httpx.get(f"{engine.url}/openapi.json", trust_env=False).json()["paths"]
    return {(method.upper(), path) for path, methods in listed.items() for method in methods}


def test_no_other_route_of_an_engine_is_reachable(gateway, stack):
    """Each that an engine has or would have, asked of the gateway, is unknown there and comes to no engine."""
    listed = set().union(*map(routes_of, stack.engines))
    assert {("POST", "/v1/audio/speech/batch"), ("GET", "/version"), ("GET", "/load")} <= listed - OWN
    assert {("POST", "/v1/omni/sleep"), ("POST", "/tokenize"), ("POST", "/v1/completions")} <= UNLISTED
    marks = [engine.log_size() for engine in stack.engines]
    others = sorted((listed | UNLISTED) - OWN)
    paths = [(method, re.sub(r"\{.*?\}", "x", path)) for method, path in others]
    for method, path in paths:
        answer = gateway.http.request(method, path, json={"model": MODEL, "prompt": "x", "level": 1})
        assert answer.status_code in (404, 405), (method, path, answer.text)
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    for engine, mark in zip(stack.engines, marks, strict=True):
        log = engine.log_since(mark)
        assert [path for method, path in paths if f'"{method} {path} ' in log] == []


def test_the_probe_takes_the_gateway_for_a_server(gateway):
    report = probe.wait_ready(gateway.url, 60, api_key=KEY)
    assert report.ok
    assert report.model == MODEL


def test_both_models_at_once(gateway):
    with gateway.client(MODEL) as speaker, gateway.client(RECOGNITION[0]) as listener, ThreadPoolExecutor(4) as pool:
        spoken = [pool.submit(speaker.speech, TEXT, voice="ryan", seed=seed) for seed in (1, 2)]
        heard = [pool.submit(listener.transcribe, vowels()) for _ in range(2)]
        for answer in spoken:
            assert judge_speech(answer.result().body, fmt="wav", text=TEXT).ok
        assert len({answer.result().text for answer in heard}) == 1


def test_the_metrics_are_the_gateways_own(gateway):
    page = gateway.http.get("/metrics").text
    assert f'firstword_audio_seconds_total{{kind="speech",model="{MODEL}"}}' in page
    assert f'firstword_first_audio_seconds_count{{kind="speech",model="{MODEL}"}}' in page
    assert len(re.findall(r'^firstword_upstream_state\{.*state="ready".*\} 1\.0$', page, re.MULTILINE)) == 2
    assert "vllm" not in page


def test_every_request_has_one_line_and_none_tells_what_was_said(gateway):
    lines = [line for line in gateway.lines() if line["event"] == "request" and line["route"] == "/v1/audio/speech"]
    assert all(line["model"] and line["request_id"] for line in lines)
    ids = [line["request_id"] for line in lines]
    assert len(set(ids)) == len(ids)
    text = gateway.log.read_text()
    for said in itertools.chain(TEXT.split(","), LONG.split(",")):
        assert said not in text
