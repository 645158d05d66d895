"""Readiness: `ready` means that this engine gave a real, judged answer since it started."""

import numpy as np
import pytest

from fake_engine import FakeEngine
from firstword.acceptance import plain
from firstword.gateway import catalogue
from firstword.gateway.readiness import Watcher
from firstword.gateway.routing import Router
from firstword.gateway.settings import Settings
from firstword.gateway.upstreams import Model, Upstream
from gateway_kit import running
from sounds import voice

SPEECH = "/v1/audio/speech"
QWEN = "qwen3-tts-customvoice-synthetic"
STEP = "step-audio-2-mini-synthetic"
BODY = {"model": QWEN, "input": "Hello.", "response_format": "wav"}


@pytest.fixture(autouse=True)
def run_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def engine():
    with FakeEngine(QWEN) as engine:
        yield engine


@pytest.fixture
def absent():
    """An address where nothing listens any more."""
    engine = FakeEngine(STEP)
    with engine:
        pass
    return engine.url


def test_ready_after_one_real_answer_and_none_after_it(engine):
    with running(engine.url) as gateway:
        answer = gateway.wait()
        assert answer["ready"] is True
        assert answer["models"][QWEN] == {"state": "ready", "since": answer["models"][QWEN]["since"], "cause": None}
        assert engine.asked.count(SPEECH) == 1
        looks = engine.asked.count("/health")
        lists = engine.asked.count("/v1/models")
        gateway.until(lambda _: engine.asked.count("/health") >= looks + 3)
        assert engine.asked.count(SPEECH) == 1
        assert engine.asked.count("/v1/models") == lists


def test_an_engine_that_was_started_anew_with_another_model(engine):
    engine.strict = True
    with running(engine.url) as gateway:
        gateway.wait()
        engine.started_at += 60
        engine.model = "qwen3-tts-1.7b-customvoice"
        gateway.until(lambda answer: answer["ready"] and list(answer["models"]) == [engine.model])
        assert gateway.http.post(SPEECH, json=BODY).status_code == 404
        assert gateway.http.post(SPEECH, json=BODY | {"model": engine.model}).status_code == 200


def test_silence_is_no_answer(engine):
    engine.speech = np.zeros(48_000, np.float32)
    with running(engine.url) as gateway:
        answer = gateway.until(lambda answer: answer["upstreams"][0]["cause"])["models"][QWEN]
        assert "silence" in answer["cause"]
        assert answer["state"] == "starting"
        refused = gateway.http.post(SPEECH, json=BODY)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "model_not_ready"
        assert "silence" in refused.json()["error"]["message"]
        assert refused.headers["retry-after"] == "1"
        engine.speech = voice()
        assert gateway.wait()["models"][QWEN]["state"] == "ready"
        assert gateway.http.post(SPEECH, json=BODY).status_code == 200


def test_a_model_known_to_the_catalogue_is_not_ready_while_its_engine_starts(absent):
    with running(absent) as gateway:
        gateway.wait(503)
        gateway.until(lambda answer: answer["upstreams"][0]["cause"])
        answer = gateway.http.post(SPEECH, json=BODY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "model_not_ready")
        assert "Connection refused" in answer.json()["error"]["message"]
        unknown = gateway.http.post(SPEECH, json={"model": "gpt-4o"})
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
        assert "no engine has said yet" in unknown.json()["error"]["message"]
        assert gateway.http.get("/v1/models").json()["data"] == []
        assert gateway.http.get("/health").json() == {"status": "alive"}


def test_once_all_have_spoken_a_model_of_nobody_is_not_found(engine):
    with running(engine.url) as gateway:
        gateway.wait()
        assert gateway.http.post(SPEECH, json={"model": "qwen3-tts-0.6b-base"}).status_code == 404


def test_only_required_upstreams_are_waited_for(engine, absent):
    with running(engine.url, optional_upstreams=(absent,)) as gateway:
        answer = gateway.wait()
        assert [(each["required"], each["state"]) for each in answer["upstreams"]] == [
            (True, "ready"),
            (False, "starting"),
        ]
    with running(engine.url, absent) as gateway:
        gateway.until(lambda answer: answer["upstreams"][0]["state"] == "ready")
        answer = gateway.ready()
        assert answer.status_code == 503
        assert answer.json()["ready"] is False
        assert gateway.http.post(SPEECH, json=BODY).status_code == 200


def test_an_engine_that_stops_answering_stops_being_ready_and_comes_back(engine):
    with running(engine.url, ready_fresh=0.2, ready_timeout=0.5) as gateway:
        since = gateway.wait()["models"][QWEN]["since"]
        engine.delay = 2
        answer = gateway.wait(503)["models"][QWEN]
        assert answer["state"] == "not_ready"
        assert "no answer in time" in answer["cause"]
        assert answer["since"] >= since
        engine.delay = 0
        answer = gateway.wait()["models"][QWEN]
        assert answer["state"] == "ready"
        assert "no answer in time" in answer["cause"]  # the last cause is kept


def test_an_engine_that_was_started_anew_has_to_answer_anew(engine):
    with running(engine.url) as gateway:
        gateway.wait()
        engine.started_at += 60
        engine.speech = np.zeros(48_000, np.float32)
        assert "silence" in gateway.wait(503)["models"][QWEN]["cause"]


def test_an_engine_under_another_name_is_listed_routed_and_known_by_its_checkpoint(engine):
    engine.model, engine.root = "house-voice", f"/checkpoints/{QWEN}"
    with running(engine.url) as gateway:
        gateway.wait()
        (model,) = gateway.http.get("/v1/models").json()["data"]
        assert (model["id"], model["family"]) == ("house-voice", "qwen3-tts")
        assert gateway.http.post(SPEECH, json=BODY | {"model": "house-voice"}).status_code == 200
        assert gateway.http.post(SPEECH, json=BODY).status_code == 404
        voices = gateway.http.get("/v1/audio/voices").json()["voices"]
        assert {voice["model"] for voice in voices} == {"house-voice"}


def test_the_engines_address_is_not_told_to_clients(engine, absent):
    with running(absent, engine.url) as gateway:
        gateway.until(lambda answer: answer["upstreams"][0]["cause"])
        assert "http://" not in gateway.http.post(SPEECH, json=BODY | {"model": STEP}).text


@pytest.mark.parametrize(
    "page", [b"<html>", b"[]", b"{}", b'{"data": 3}', b'{"data": [3]}', b'{"data": [{}]}', b'{"data": []}', b"\xff"]
)
def test_a_server_that_is_no_engine_is_told_and_looked_at_again(run_dir, engine, page):
    upstream = Upstream(engine.url)
    watcher = Watcher(upstream, Settings(upstreams=(engine.url,), ready_timeout=2))
    engine.models = page
    watcher.look()
    assert upstream.condition.state == "starting"
    assert "model" in upstream.condition.cause
    engine.models = None
    watcher.look()
    assert upstream.ready


def test_a_watcher_survives_what_it_did_not_expect(engine, monkeypatch):
    upstream = Upstream(engine.url)
    watcher = Watcher(upstream, Settings(upstreams=(engine.url,), ready_timeout=2))
    with monkeypatch.context() as patch:
        patch.setattr("firstword.acceptance.readiness.check", lambda *_, **__: 1 / 0)
        watcher.look()
    assert upstream.condition.cause == "ZeroDivisionError: division by zero"
    watcher.look()
    assert upstream.ready


def test_a_list_of_models_that_comes_with_an_error_is_none(engine, monkeypatch):
    upstream = Upstream(engine.url)
    get = plain.get
    monkeypatch.setattr(plain, "get", lambda *args, **options: (500, get(*args, **options)[1]))
    Watcher(upstream, Settings(upstreams=(engine.url,), ready_timeout=2)).look()
    assert upstream.models == ()
    assert upstream.condition.cause == "/v1/models says 500"


def test_a_watcher_trusts_an_engine_as_its_settings_say(engine, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "firstword.acceptance.readiness.check", lambda server, **options: asked.append((server, options))
    )
    settings = Settings(upstreams=(engine.url,), ready_timeout=7, ready_fresh=8, ready_stall=9)
    Watcher(Upstream(engine.url), settings).look()
    ((server, options),) = asked
    assert (server.timeout, options["limits"].fresh, options["limits"].stall) == (7, 8, 9)
    assert server.model == QWEN


def test_a_watcher_that_is_stopped_does_not_wait_for_its_next_look(engine):
    upstream = Upstream(engine.url)
    watcher = Watcher(upstream, Settings(upstreams=(engine.url,), ready_interval=300, ready_timeout=20))
    watcher.start()
    watcher.stop()
    watcher._thread.join(30)
    assert not watcher._thread.is_alive()


def test_of_two_engines_the_ready_one_with_fewer_requests_is_chosen():
    one, two = Upstream("http://one:1"), Upstream("http://two:1")
    router = Router((one, two), catalogue.load(), retry_after=5)
    for upstream in (one, two):
        upstream.tell_models((Model("m"),))
    two.tell_ready()
    assert router.choose("m") is two
    one.tell_ready()
    with two.busy():
        assert router.choose("m") is one
        with one.busy(), one.busy():
            assert router.choose("m") is two
    assert (one.requests, two.requests) == (0, 0)
    two.tell_cause("it fell")
    assert router.choose("m") is one


def test_of_two_engines_with_one_model_the_one_named_first_describes_it():
    one, two = Upstream("http://one:1"), Upstream("http://two:1")
    one.tell_models((Model("m", "/checkpoints/one"),))
    two.tell_models((Model("m", "/checkpoints/two"), Model("n")))
    models = Router((one, two), catalogue.load(), retry_after=5).models()
    assert {name: model.root for name, model in models.items()} == {"m": "/checkpoints/one", "n": ""}


def test_a_model_keeps_the_time_at_which_it_was_first_seen(monkeypatch):
    upstream = Upstream("http://one:1")
    monkeypatch.setattr("time.time", lambda: 100.0)
    upstream.tell_models((Model("m"),))
    monkeypatch.setattr("time.time", lambda: 200.0)
    upstream.tell_models((Model("m"), Model("n")))
    assert [model.since for model in upstream.models] == [100, 200]
