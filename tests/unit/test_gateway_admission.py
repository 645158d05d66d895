"""Places, queues and deadlines before a scripted engine, and what `/metrics` tells of them."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fake_engine import FakeEngine
from gateway_kit import events, head, left, running
from sounds import to_pcm, voice

SPEECH = "/v1/audio/speech"
CHAT = "/v1/chat/completions"
MODEL = "qwen3-tts-customvoice-synthetic"
STEP = "step-audio-2-mini-synthetic"
BODY = {"model": MODEL, "input": "Hello.", "voice": "ryan"}
DELTA = {"type": "speech.audio.delta", "audio": base64.b64encode(to_pcm(voice(1.0))).decode()}
DONE = {"type": "speech.audio.done", "usage": {}}


@pytest.fixture
def engines():
    with FakeEngine(MODEL) as qwen, FakeEngine(STEP) as step:
        yield qwen, step


@pytest.fixture
def start(engines, tmp_path, monkeypatch):
    """Return a context manager: a gateway with these settings, ready, before the engines."""
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))

    def start(**settings):
        return running(*(engine.url for engine in engines), ready_interval=30, **settings)

    return start


def number(gateway, name, **labels):
    """Return the sum of a metric's samples that have these labels."""
    families = text_string_to_metric_families(gateway.http.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    assert samples, name
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


def held(engine):
    """Make the engine wait in the midst of each answer; return who is being answered, and the event that frees it."""
    asked, go_on = threading.Semaphore(0), threading.Event()
    engine.script = events(DELTA, asked.release, lambda: go_on.wait(10), DONE)
    return asked, go_on


def test_so_many_run_so_many_wait_and_the_next_is_told_to_come_back(engines, start):
    with start(concurrency=2, queue=1) as gateway, ThreadPoolExecutor(3) as pool:
        gateway.wait()
        asked, go_on = held(engines[0])
        answers = [pool.submit(httpx.post, gateway.url + SPEECH, json=BODY, timeout=20, trust_env=False) for _ in "ab"]
        assert asked.acquire(timeout=10)
        assert asked.acquire(timeout=10)
        answers.append(pool.submit(httpx.post, gateway.url + SPEECH, json=BODY, timeout=20, trust_env=False))
        gateway.until(lambda _: number(gateway, "firstword_queue", model=MODEL) == 1)
        assert number(gateway, "firstword_in_flight", model=MODEL) == 2
        refused = gateway.http.post(SPEECH, json=BODY, headers={"x-request-id": "refused"})
        assert refused.status_code == 429
        error = refused.json()["error"]
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert gateway.line("refused")["outcome"] == "refused"
        chat = {"model": STEP, "messages": [], "modalities": ["text"]}
        assert gateway.http.post(CHAT, json=chat).status_code == 200  # another model has places of its own
        go_on.set()
        assert [answer.result().status_code for answer in answers] == [200, 200, 200]
        assert number(gateway, "firstword_in_flight", model=MODEL) == 0
        assert gateway.http.post(SPEECH, json=BODY).status_code == 200


def test_who_leaves_the_queue_makes_room(engines, start):
    with start(concurrency=1, queue=1) as gateway, ThreadPoolExecutor(1) as pool:
        gateway.wait()
        asked, go_on = held(engines[0])
        first = pool.submit(httpx.post, gateway.url + SPEECH, json=BODY, timeout=20, trust_env=False)
        assert asked.acquire(timeout=10)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(gateway.url + SPEECH, json=BODY, timeout=0.3, trust_env=False)
        gateway.until(lambda _: number(gateway, "firstword_queue", model=MODEL) == 0)
        go_on.set()
        assert first.result().status_code == 200
        assert len(engines[0].bodies) == 2  # the readiness's own, and the first: nobody asked for the one that left


def test_a_deadline_counts_the_wait_too(engines, start):
    with start(concurrency=1, speech_deadline=0.6) as gateway, ThreadPoolExecutor(1) as pool:
        gateway.wait()
        noticed = []

        def script(handler, body):
            head(handler, transfer_encoding="chunked")
            noticed.append(left(handler))
            handler.close_connection = True

        engines[0].script = script
        late = {"headers": {"x-request-id": "late"}, "timeout": 20, "trust_env": False}
        waiting = pool.submit(httpx.post, gateway.url + SPEECH, json=BODY, **late)
        answer = gateway.http.post(SPEECH, json=BODY)
        for each in (answer, waiting.result()):
            assert each.status_code == 504
            assert each.json()["error"]["code"] == "deadline_exceeded"
        assert gateway.line("late")["outcome"] == "deadline"
        gateway.until(lambda _: noticed == [True] * len(noticed) and noticed)


def test_a_deadline_in_the_midst_of_a_stream_breaks_it(engines, start):
    with start(speech_deadline=0.6) as gateway:
        gateway.wait()
        held(engines[0])
        body = BODY | {"stream_format": "sse"}
        got = []
        with (
            gateway.http.stream("POST", SPEECH, json=body) as answer,
            pytest.raises(httpx.RemoteProtocolError),
        ):
            got.extend(answer.iter_raw())
        assert b"deadline_exceeded" in b"".join(got)


def test_what_is_counted(engines, start):
    with start(upstream_timeout=1.0) as gateway:
        gateway.wait()
        engines[0].script = events(DELTA, DONE)
        for model in (MODEL, "tts-1", "made-up", "made-up-2"):
            gateway.http.post(SPEECH, json=BODY | {"model": model})
        engines[0].script = events(DELTA, end=False)
        with suppress(httpx.RemoteProtocolError):
            gateway.http.post(SPEECH, json=BODY)
        gateway.until(lambda _: number(gateway, "firstword_requests_total", kind="speech", model=MODEL) == 3)
        spoken = {"kind": "speech", "model": MODEL}
        assert number(gateway, "firstword_requests_total", **spoken, status="200", outcome="complete") == 2
        assert number(gateway, "firstword_requests_total", **spoken, outcome="upstream_broke") == 1
        assert number(gateway, "firstword_requests_total", kind="speech", model="", status="404") == 2
        assert number(gateway, "firstword_first_audio_seconds_count", **spoken) == 3
        assert number(gateway, "firstword_real_time_factor_count", **spoken) == 2
        assert number(gateway, "firstword_audio_seconds_total", **spoken) == pytest.approx(3.0, abs=0.1)
        assert number(gateway, "firstword_finish_total", **spoken, reason="stop") == 2
        assert number(gateway, "firstword_upstream_state", state="ready") == 2
        assert number(gateway, "firstword_upstream_state") == 2
        assert "made-up" not in gateway.http.get("/metrics").text
