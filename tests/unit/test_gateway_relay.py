"""Passing an engine's answer through, and every way in which it can go wrong. The engine is scripted: faults only.

A chat in text is what passes through byte for byte.
"""

import json
import socket
import threading
import time

import httpx
import openai
import pytest

from fake_engine import FakeEngine
from gateway_kit import chunk, cut, head, left, running

CHAT = "/v1/chat/completions"
MODEL = "step-audio-2-mini-synthetic"
BODY = {"model": MODEL, "messages": [], "modalities": ["text"]}


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, FakeEngine(MODEL) as engine:
        patch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path_factory.mktemp("run")))
        with running(engine.url, upstream_timeout=1.0) as gateway:
            gateway.wait()
            yield engine, gateway


@pytest.fixture
def engine(stack):
    engine = stack[0]
    yield engine
    engine.script = None


@pytest.fixture
def gateway(stack):
    stack[1].wait()
    return stack[1]


def events(*pieces, then_cut=True):
    def script(handler, body):
        head(handler, "text/event-stream; charset=utf-8", transfer_encoding="chunked")
        for piece in pieces:
            chunk(handler, piece)
        cut(handler) if then_cut else chunk(handler, b"")

    return script


def test_bytes_come_as_the_engine_sends_them(engine, gateway):
    go_on = threading.Event()

    def script(handler, body):
        # The voice is UTF-8, as an engine sends what is not Latin; it arrives as the same bytes.
        told = {"X-Sample-Rate": "24000", "X-Voice": "声".encode().decode("latin-1")}
        head(handler, "audio/pcm", transfer_encoding="chunked", Server="secret", Set_Cookie="a=b", **told)
        for piece in (b"one", b"two"):
            chunk(handler, piece)
            assert go_on.wait(10)
            go_on.clear()
        chunk(handler, b"")

    engine.script = script
    with gateway.http.stream("POST", CHAT, json=BODY, headers={"x-request-id": "whole"}) as answer:
        pieces = answer.iter_raw()
        for piece in (b"one", b"two"):  # each is had before the engine makes the next
            assert next(pieces) == piece
            go_on.set()
        assert list(pieces) == []
    assert answer.headers["content-type"] == "audio/pcm"
    assert answer.headers["x-sample-rate"] == "24000"
    assert (b"x-voice", "声".encode()) in answer.headers.raw
    assert not {"set-cookie", "server"} & set(answer.headers)
    assert gateway.line("whole")["outcome"] == "complete"


def test_what_the_engine_gets(engine, gateway):
    raw = (
        b'{"model":  "'
        + MODEL.encode()
        + b'", "messages": [ ], "modalities": ["text"], "user": "\\u00e9", "seed": 1e2}'
    )
    headers = {"content-type": "application/json", "authorization": "Bearer x", "cookie": "a=b", "x-evil": "1"}
    gateway.http.post(CHAT, content=raw, headers=headers)
    sent = {name.lower(): value for name, value in engine.headers[-1].items()}
    assert sent["content-type"] == "application/json"
    assert sent["content-length"] == str(len(raw))
    assert sent["accept-encoding"] == "identity"
    assert not {"authorization", "cookie", "x-evil"} & set(sent)


def test_a_stream_that_breaks_never_ends_as_complete(engine, gateway):
    def script(handler, body):
        head(handler, transfer_encoding="chunked")
        chunk(handler, b"half")
        cut(handler)

    engine.script = script
    with gateway.http.stream("POST", CHAT, json=BODY, headers={"x-request-id": "half"}) as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b"half"
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            list(pieces)
    line = gateway.line("half")
    assert (line["status"], line["outcome"], line["bytes"]) == (200, "upstream_broke", 4)


def test_a_plain_answer_that_breaks_is_shorter_than_it_said(engine, gateway):
    def script(handler, body):
        head(handler, content_length="100")
        handler.wfile.write(b"half")
        cut(handler)

    engine.script = script
    with pytest.raises(httpx.RemoteProtocolError):
        gateway.http.post(CHAT, json=BODY)


def test_a_stream_in_which_nothing_comes_any_more_breaks(engine, gateway):
    over = threading.Event()

    def script(handler, body):
        head(handler, transfer_encoding="chunked")
        chunk(handler, b"half")
        assert over.wait(10)

    engine.script = script
    try:
        with gateway.http.stream("POST", CHAT, json=BODY) as answer, pytest.raises(httpx.RemoteProtocolError):
            list(answer.iter_raw())
    finally:
        over.set()


DELTA = b'data: {"choices": [{"index": 0, "delta": {"content": "one"}}]}\n\n'


def until_it_breaks(gateway):
    """Return what came of a chat's events before the connection broke."""
    got = []
    with gateway.http.stream("POST", CHAT, json=BODY) as answer, pytest.raises(httpx.RemoteProtocolError):
        got.extend(answer.iter_raw())
    return b"".join(got)


def test_events_that_break_end_with_an_error_event_and_no_final_chunk(engine, gateway):
    engine.script = events(DELTA)
    got = until_it_breaks(gateway)
    first, last = got.removesuffix(b"\n\n").split(b"\n\n")
    assert first + b"\n\n" == DELTA
    name, data = last.split(b"\n")
    assert name == b"event: error"
    assert json.loads(data.removeprefix(b"data: "))["error"]["code"] == "upstream_broke"


def test_an_event_that_breaks_in_its_midst_gets_no_other_into_it(engine, gateway):
    engine.script = events(DELTA, DELTA[:20])
    assert until_it_breaks(gateway) == DELTA + DELTA[:20]


def test_the_openai_sdk_raises_for_events_that_break(engine, gateway):
    engine.script = events(DELTA)
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        stream = client.chat.completions.create(model=MODEL, messages=[], stream=True)
        got = [next(stream).choices[0].delta.content]
        with pytest.raises((openai.APIError, httpx.HTTPError)):
            got.extend(stream)
    assert got == ["one"]


def leaves(gateway, request_id, *, after_bytes):
    """Ask, and close the connection before the answer or within it."""
    raw = json.dumps(BODY).encode()
    address = httpx.URL(gateway.url)
    with socket.create_connection((address.host, address.port)) as connection:
        connection.sendall(
            f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n".encode()
            + f"x-request-id: {request_id}\r\ncontent-length: {len(raw)}\r\n\r\n".encode()
            + raw
        )
        if after_bytes:
            assert connection.recv(1)
        else:
            time.sleep(0.2)


@pytest.mark.parametrize("after_bytes", [False, True])
def test_a_client_that_leaves_cancels_the_engines_work(engine, gateway, after_bytes):
    noticed, done = [], threading.Event()

    def script(handler, body):
        if after_bytes:
            head(handler, transfer_encoding="chunked")
            chunk(handler, b"first")
        start = time.monotonic()
        noticed.append(left(handler) and time.monotonic() - start)
        handler.close_connection = True
        done.set()

    engine.script = script
    leaves(gateway, f"left-{after_bytes}", after_bytes=after_bytes)
    assert done.wait(10)
    assert noticed[0], "the engine works for nobody"
    assert noticed[0] < 1
    assert gateway.line(f"left-{after_bytes}")["outcome"] == "client_left"
    assert gateway.ready().status_code == 200


def test_a_client_that_leaves_while_it_uploads(gateway):
    address = httpx.URL(gateway.url)
    with socket.create_connection((address.host, address.port)) as connection:
        connection.sendall(
            f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n".encode()
            + b"x-request-id: upload\r\ncontent-length: 99\r\n\r\n{"
        )
        time.sleep(0.1)
    assert gateway.line("upload")["status"] == 499


@pytest.mark.parametrize(
    ("status", "sent", "message", "code", "param"),
    [
        (
            400,
            {"error": {"message": "no voice", "type": "BadRequestError", "param": "voice", "code": 400}},
            "no voice",
            None,
            "voice",
        ),
        (
            404,
            {"error": {"message": "gone", "type": "NotFoundError", "param": None, "code": "404"}},
            "gone",
            None,
            None,
        ),
        (
            500,
            {"error": {"message": "broke", "type": "x", "param": None, "code": "engine_dead"}},
            "broke",
            "engine_dead",
            None,
        ),
        (404, {"detail": "Not Found"}, "Not Found", None, None),
        (422, {"detail": [{"loc": ["body"], "msg": "no"}]}, '{"detail": [{"loc": ["body"], "msg": "no"}]}', None, None),
        (503, "plain words\nand more", "plain words", None, None),
        (500, "", "(empty body)", None, None),
    ],
)
def test_an_engines_error_keeps_its_status_and_gets_openais_shape(engine, gateway, status, sent, message, code, param):
    data = sent.encode() if isinstance(sent, str) else json.dumps(sent).encode()

    def script(handler, body):
        head(handler, "text/plain", status=status, content_length=str(len(data)))
        handler.wfile.write(data)

    engine.script = script
    answer = gateway.http.post(CHAT, json=BODY)
    assert answer.status_code == status
    kind = "server_error" if status >= 500 else "invalid_request_error"
    assert answer.json() == {"error": {"message": message, "type": kind, "param": param, "code": code}}


def test_the_openai_sdk_reads_an_engines_error(engine, gateway):
    engine.error = 400
    try:
        client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
        with client, pytest.raises(openai.BadRequestError, match="it broke") as caught:
            client.chat.completions.create(model=MODEL, messages=[])
        assert caught.value.type == "invalid_request_error"
    finally:
        engine.error = 0


def test_a_redirect_is_not_followed(engine, gateway):
    engine.script = lambda handler, body: head(handler, status=307, location="/v1/omni/sleep", content_length="0")
    answer = gateway.http.post(CHAT, json=BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "bad_upstream")
    assert "/v1/omni/sleep" not in engine.asked


def test_an_engine_that_breaks_before_it_answers(engine, gateway):
    engine.script = lambda handler, body: cut(handler)
    answer = gateway.http.post(CHAT, json=BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_broke")
    assert gateway.wait()["models"][MODEL]["cause"]  # the last cause stays, though it is ready again


def test_an_engine_that_sends_nothing(engine, gateway):
    engine.script = lambda handler, body: left(handler)
    answer = gateway.http.post(CHAT, json=BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")
    assert "1 s" in answer.json()["error"]["message"]


def test_an_engine_that_has_gone_is_not_ready_from_its_first_refusal_on(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))
    with FakeEngine(MODEL) as engine, running(engine.url, ready_interval=30) as gateway:
        gateway.wait()
        engine.__exit__()
        answer = gateway.http.post(CHAT, json=BODY)
        assert answer.status_code == 503
        error = answer.json()["error"]
        assert error["code"] == "model_not_ready"
        assert "no connection" in error["message"]
        assert answer.headers["retry-after"] == "30"
        assert gateway.ready().status_code == 503
        engine.__enter__()


@pytest.mark.parametrize("wait", [True, False])
def test_stopping_lets_streams_end_for_a_while(tmp_path, monkeypatch, wait):
    """The kit's stop timeout is one second; each stream lasts half a second, or for ever."""
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))
    asked, over = threading.Event(), threading.Event()

    def script(handler, body):
        head(handler, transfer_encoding="chunked")
        chunk(handler, b"one")
        asked.set()
        over.wait(0.5 if wait else 10)
        try:
            chunk(handler, b"two")
            chunk(handler, b"")
        except OSError:
            pass

    got, failed = [], []

    def ask(url):
        try:
            with httpx.stream("POST", url + CHAT, json=BODY, timeout=20, trust_env=False) as answer:
                got.extend(answer.iter_raw())
        except httpx.HTTPError as error:
            failed.append(error)

    with FakeEngine(MODEL) as engine:
        with running(engine.url) as gateway:
            gateway.wait()
            engine.script = script
            client = threading.Thread(target=ask, args=(gateway.url,))
            client.start()
            assert asked.wait(10)
        over.set()
        client.join(10)
    assert got == ([b"one", b"two"] if wait else [b"one"])
    assert bool(failed) is not wait


@pytest.mark.parametrize("split", [1, 40, 70])
def test_why_a_chat_ended_is_told_where_there_is_a_place_and_counted(engine, gateway, split):
    whole = json.dumps({"choices": [{"message": {"content": "Yes."}, "finish_reason": "length"}]}).encode()

    def plain(handler, body):
        head(handler, "application/json", content_length=str(len(whole)))
        handler.wfile.write(whole)

    engine.script = plain
    answer = gateway.http.post(CHAT, json=BODY)
    assert (answer.content, answer.headers["x-finish-reason"]) == (whole, "length")
    event = b'data: {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}\n\ndata: [DONE]\n\n'
    engine.script = events(event[:split], event[split:], then_cut=False)
    answer = gateway.http.post(CHAT, json=BODY)
    assert answer.content == event
    assert "x-finish-reason" not in answer.headers
    page = gateway.http.get("/metrics").text
    for reason in ("length", "tool_calls"):
        assert f'firstword_finish_total{{kind="chat",model="{MODEL}",reason="{reason}"}}' in page
