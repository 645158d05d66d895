"""Several engines with one model: who is asked, what goes elsewhere, and who stands in. The engines are scripted."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fake_engine import FakeEngine
from firstword.gateway import fleet
from firstword.gateway.settings import Settings
from firstword.gateway.upstreams import Model
from gateway_kit import cut, head, running

MODEL = "step-audio-2-mini-synthetic"
CHAT = "/v1/chat/completions"
BODY = {"model": MODEL, "messages": [], "modalities": ["text"]}


@pytest.fixture(autouse=True)
def run_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))


@pytest.fixture
def engines():
    with FakeEngine(MODEL) as one, FakeEngine(MODEL) as two, FakeEngine(MODEL) as three:
        yield one, two, three


def all_ready(gateway):
    gateway.until(lambda answer: all(each["state"] == "ready" for each in answer["upstreams"]))


def post(gateway, status=200):
    answer = gateway.http.post(CHAT, json=BODY)
    assert answer.status_code == status, answer.text
    return answer.json()


def asked(*engines):
    return [sum(path == CHAT for path in engine.asked) for engine in engines]


def results(gateway, engine):
    page = gateway.http.get("/metrics").text
    state = gateway.ready().json()["upstreams"]
    assert engine.url.removeprefix("http://") in [each["host"] for each in state]
    found = re.findall(r"^firstword_upstream_results_total\{(.*)\} (\d+)\.0$", page, re.MULTILINE)
    mine = [(line, count) for line, count in found if f'upstream="{engine.url.removeprefix("http://")}"' in line]
    return {re.search('result="(.*?)"', line)[1]: int(count) for line, count in mine}


def cutting(handler, body):
    cut(handler)


def test_the_one_with_fewer_requests_is_asked(engines):
    one, two, _ = engines
    go_on = threading.Event()

    def waiting(handler, body):
        assert go_on.wait(10)
        handler.send_json({})

    with running(one.url, two.url) as gateway, ThreadPoolExecutor(4) as pool:
        all_ready(gateway)
        for engine in (one, two):
            engine.script = waiting
            engine.asked.clear()
        answers = [pool.submit(post, gateway) for _ in range(4)]
        gateway.until(lambda _: sum(asked(one, two)) == 4)
        go_on.set()
        assert [answer.result() for answer in answers] == [{}] * 4
        assert asked(one, two) == [2, 2]


def test_one_that_is_gone_loses_nothing_and_another_stands_in_for_it(engines):
    one, two, _ = engines
    with running(one.url, two.url, ready_interval=60) as gateway:
        all_ready(gateway)
        one.__exit__()
        for _ in range(3):
            post(gateway)
        answer = gateway.ready()
        assert answer.status_code == 200
        assert [each["state"] for each in answer.json()["upstreams"]] == ["not_ready", "ready"]
        assert answer.json()["models"][MODEL]["state"] == "ready"
        assert results(gateway, one) == {"begun": 0, "not_begun": 1, "broke_off": 0}
        assert results(gateway, two)["begun"] == 3
        one.__enter__()


def test_a_request_that_was_taken_and_broken_goes_to_one_other_and_no_further(engines):
    with running(*(engine.url for engine in engines)) as gateway:
        all_ready(gateway)
        engines[0].script = cutting
        engines[0].asked.clear()
        post(gateway)
        assert asked(engines[0]) == [1]
        all_ready(gateway)
        for engine in engines:
            engine.script = cutting
            engine.asked.clear()
        assert post(gateway, 502)["error"]["code"] == "upstream_broke"
        assert sum(asked(*engines)) == 2


def test_one_that_was_begun_is_never_asked_twice(engines):
    one, two, _ = engines

    def beginning(handler, body):
        head(handler, transfer_encoding="chunked")
        cut(handler)

    with running(one.url, two.url) as gateway:
        all_ready(gateway)
        for engine in (one, two):
            engine.script = beginning
            engine.asked.clear()
        with pytest.raises(Exception, match="incomplete chunked read"):
            gateway.http.post(CHAT, json=BODY)
        assert sum(asked(one, two)) == 1
        assert sum(results(gateway, engine)["broke_off"] for engine in (one, two)) == 1


def test_one_that_says_nothing_is_not_asked_again_elsewhere(engines):
    one, two, _ = engines
    over = threading.Event()
    with running(one.url, two.url, upstream_timeout=0.5) as gateway:
        all_ready(gateway)
        for engine in (one, two):
            engine.script = lambda handler, body: over.wait(10)
            engine.asked.clear()
        assert post(gateway, 504)["error"]["code"] == "upstream_timeout"
        over.set()
        assert sum(asked(one, two)) == 1


def test_what_an_engine_refuses_stays_refused(engines):
    one, two, _ = engines
    with running(one.url, two.url) as gateway:
        all_ready(gateway)
        for engine in (one, two):
            engine.error = 400
            engine.asked.clear()
        post(gateway, 400)
        assert sum(asked(one, two)) == 1
        assert gateway.ready().status_code == 200


def test_a_request_in_the_queue_is_asked_of_who_is_there_at_its_turn(engines):
    one, two, _ = engines
    go_on = threading.Event()

    def waiting(handler, body):
        assert go_on.wait(10)
        cut(handler)

    with running(one.url, two.url, concurrency=1) as gateway, ThreadPoolExecutor(2) as pool:
        all_ready(gateway)
        one.script = waiting
        answers = [pool.submit(post, gateway) for _ in range(2)]
        gateway.until(lambda _: 'firstword_queue{model="step-audio-2-mini-synthetic"} 1.0' in metrics(gateway))
        one.__exit__()
        go_on.set()
        assert len([answer.result() for answer in answers]) == 2
        one.__enter__()


def metrics(gateway):
    return gateway.http.get("/metrics").text


def test_each_address_of_a_name_is_an_engine(engines, monkeypatch):
    one = engines[0]
    port = one.url.rpartition(":")[2]
    found = ["127.0.0.2", "127.0.0.1"]
    monkeypatch.setattr(fleet, "addresses", lambda host, port: found)
    with running(f"http://engines.example:{port}") as gateway:
        gateway.wait()
        told = gateway.until(
            lambda answer: all(each["cause"] or each["state"] == "ready" for each in answer["upstreams"])
        )
        assert [(each["host"], each["address"], each["state"]) for each in told["upstreams"]] == [
            (f"engines.example:{port}", "127.0.0.1", "ready"),
            (f"engines.example:{port}", "127.0.0.2", "starting"),
        ]
        post(gateway)
        assert f'address="127.0.0.2",state="starting",upstream="engines.example:{port}"' in metrics(gateway)
        found.remove("127.0.0.2")
        gateway.until(lambda answer: [each["address"] for each in answer["upstreams"]] == ["127.0.0.1"])
        assert gateway.ready().status_code == 200


def test_a_lookup_that_fails_changes_nothing(monkeypatch):
    def failing(host, port):
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr(fleet, "addresses", failing)
    monkeypatch.setattr(fleet.Watcher, "start", lambda self: None)
    named = fleet.Named("http://engines.example:8091", Settings(), required=True)
    named.look_up()
    (placeholder,) = named.members
    assert "engines.example has no address (Name or service not known)" in placeholder.condition.cause
    monkeypatch.setattr(fleet, "addresses", lambda host, port: ["10.0.0.2", "10.0.0.1"])
    named.look_up()
    members = named.members
    members[0].tell_models((Model(MODEL),))
    assert [member.url for member in members] == ["http://10.0.0.1:8091", "http://10.0.0.2:8091"]
    monkeypatch.setattr(fleet, "addresses", failing)
    named.look_up()
    assert named.members == members
    monkeypatch.setattr(fleet, "addresses", lambda host, port: ["10.0.0.3", "10.0.0.2"])
    named.look_up()
    assert [member.address for member in named.members] == ["10.0.0.2", "10.0.0.3"]
    assert named.members[0] is members[1]
    monkeypatch.setattr(fleet, "addresses", lambda host, port: ["10.0.0.1", "10.0.0.2"])
    named.members[0].tell_models((Model(MODEL),))
    named.look_up()
    assert [(member.serves(MODEL), member.ready) for member in named.members] == [(True, False), (True, False)]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://engines.example"]
)
def test_what_is_no_name_or_has_a_certificate_is_not_looked_up(url, monkeypatch):
    monkeypatch.setattr(fleet, "addresses", lambda host, port: 1 / 0)
    monkeypatch.setattr(fleet.Watcher, "start", lambda self: None)
    named = fleet.Named(url, Settings(), required=True)
    named.start()
    assert [member.url for member in named.members] == [url]


def test_an_engine_with_an_address_of_each_family_is_one(monkeypatch):
    six, four = (10, 1, 6, "", ("fd00::1", 1, 0, 0)), (2, 1, 6, "", ("10.0.0.1", 1))
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [six, four])
    assert fleet.addresses("engines.example", 1) == ["10.0.0.1"]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [six])
    assert fleet.addresses("engines.example", 1) == ["fd00::1"]
