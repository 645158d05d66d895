"""``WS /v1/audio/speech/stream`` before a scripted engine: the protocol, its limits, and every way to fail."""

import base64
import io
import json
import time
import wave
from contextlib import ExitStack, contextmanager, suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from fake_engine import FakeEngine
from gateway_kit import chunk, cut, events, head, left, running
from sounds import to_pcm, voice

PATH = "/v1/audio/speech/stream"
MODEL = "qwen3-tts-customvoice-synthetic"
PCM = to_pcm(voice(1.2))
KEY = "sk-of-a-session"
BEARER = {"authorization": f"Bearer {KEY}"}


def delta(samples):
    return {"type": "speech.audio.delta", "audio": base64.b64encode(samples).decode()}


DONE = {"type": "speech.audio.done", "usage": {"input_tokens": 3, "output_tokens": 15, "total_tokens": 18}}
SAID = (delta(PCM[:20001]), delta(PCM[20001:]), DONE)


class Talk:
    """A connection, seen from a client."""

    def __init__(self, socket):
        self.socket = socket

    def tell(self, kind, **fields):
        self.socket.send(json.dumps({"type": kind, **fields}))

    def hear(self):
        """Return the next event, or sound as bytes."""
        message = self.socket.recv(timeout=10)
        return message if isinstance(message, bytes) else json.loads(message)

    def say(self, *pieces):
        """Return the events of an utterance and its frames of sound."""
        for piece in pieces:
            self.tell("input.text", text=piece)
        self.tell("input.done")
        told, frames = [], []
        while not told or told[-1]["type"] != "session.done":
            heard = self.hear()
            (frames if isinstance(heard, bytes) else told).append(heard)
        return told, frames

    def closed(self):
        """Return the code with which the other side closes; what comes before is dropped."""
        with suppress(ConnectionClosed):
            while True:
                self.socket.recv(timeout=10)
        return self.socket.close_code


@contextmanager
def talking(gateway, headers=BEARER, **options):
    url = gateway.url.replace("http", "ws") + PATH
    with connect(url, additional_headers=headers, proxy=None, **options) as socket:
        yield Talk(socket)


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    limits = {"speech_characters": 50, "sessions": 3, "message_limit": 200_000}
    with pytest.MonkeyPatch.context() as patch, FakeEngine(MODEL) as engine:
        patch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path_factory.mktemp("run")))
        with running(engine.url, upstream_timeout=1.0, api_keys=KEY, **limits) as gateway:
            gateway.http.headers.update(BEARER)
            gateway.wait()
            yield engine, gateway


@pytest.fixture
def engine(stack):
    engine = stack[0]
    engine.script = events(*SAID)
    engine.bodies.clear()
    engine.headers.clear()
    yield engine
    engine.script = None


@pytest.fixture
def gateway(stack, engine):
    stack[1].wait()
    return stack[1]


def configured(talk, **fields):
    talk.tell("session.config", **{"model": "tts-1", "voice": "alloy"} | fields)
    return talk


def test_an_utterance_in_pieces(gateway, engine):
    with talking(gateway) as talk:
        told, frames = configured(talk, response_format="pcm", stream_audio=True).say("Hel", "lo", ", you. ")
    assert [event["type"] for event in told] == ["audio.start", "audio.done", "session.done"]
    assert told[0] == {
        "type": "audio.start",
        "utterance_index": 0,
        "sentence_index": 0,
        "sentence_text": "Hello, you.",
        "format": "pcm",
        "sample_rate": 24000,
    }
    assert (told[1]["total_bytes"], told[1]["error"]) == (len(PCM), False)
    assert told[2] == {"type": "session.done", "utterance_index": 0, "total_sentences": 1}
    assert len(frames) == 2
    assert b"".join(frames) == PCM
    (body,) = engine.bodies
    assert (body["model"], body["voice"], body["input"]) == (MODEL, "ryan", "Hello, you.")


def test_whole_utterances_are_one_frame_each_and_the_configuration_stays(gateway, engine):
    with talking(gateway) as talk:
        configured(talk)
        for number in range(2):
            told, frames = talk.say(f"Number {number}.")
            assert told[-1]["utterance_index"] == number
            assert len(frames) == 1
            with wave.open(io.BytesIO(frames[0])) as file:
                assert file.readframes(file.getnframes()) == PCM
        configured(talk, response_format="mp3", speaker="vivian", voice=None)
        told, frames = talk.say("Another.")
        assert (told[0]["format"], len(frames)) == ("mp3", 1)
        talk.tell("session.close")
        assert talk.closed() == 1000
    assert [body["voice"] for body in engine.bodies] == ["ryan", "ryan", "vivian"]


def test_nothing_to_say(gateway, engine):
    with talking(gateway) as talk:
        told, frames = configured(talk).say("  ")
    assert (told, frames) == ([{"type": "session.done", "utterance_index": 0, "total_sentences": 0}], [])
    assert engine.bodies == []


def test_utterances_told_at_once_are_said_in_order_before_the_end(gateway, engine):
    with talking(gateway) as talk:
        configured(talk)
        for text in ("one", "two"):
            talk.tell("input.text", text=text)
            talk.tell("input.done")
        talk.tell("session.close")
        heard = []
        with suppress(ConnectionClosed):
            while True:
                heard.append(talk.hear())
        assert talk.socket.close_code == 1000
    assert [each["sentence_text"] for each in heard if isinstance(each, dict) and "format" in each] == ["one", "two"]
    assert [body["input"] for body in engine.bodies] == ["one", "two"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [({}, "missing_api_key"), ({"authorization": "Bearer sk-wrong"}, "invalid_api_key")],
)
def test_without_a_key_there_is_no_connection(gateway, headers, code):
    with pytest.raises(InvalidStatus) as caught, talking(gateway, headers):
        pass
    assert caught.value.response.status_code == 401
    assert json.loads(caught.value.response.body)["error"]["code"] == code


def test_a_browser_gives_its_key_as_a_subprotocol(gateway):
    with talking(gateway, {}, subprotocols=["speech", f"openai-insecure-api-key.{KEY}"]) as talk:
        assert talk.socket.subprotocol == "speech"
        assert configured(talk).say("Hello.")[1]
    with pytest.raises(InvalidStatus), talking(gateway, {}, subprotocols=["openai-insecure-api-key.sk-wrong"]):
        pass


def test_a_page_of_another_origin_does_not_get_in_where_there_is_no_key(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))
    engine.script = None
    with running(engine.url) as open_gateway:
        open_gateway.wait()
        engine.script = events(*SAID)
        with talking(open_gateway, {}, origin=open_gateway.url) as talk:
            assert configured(talk).say("Hello.")[1]
        for origin in ("https://example.org", "http://[::1"):
            with pytest.raises(InvalidStatus) as caught, talking(open_gateway, {}, origin=origin):
                pass
            assert caught.value.response.status_code == 403


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("no JSON", "invalid_json"),
        ("[]", "invalid_json"),
        ("{}", "invalid_message"),
        (b"\0\1", "invalid_message"),
        ({"type": "input.text", "text": "Too early."}, "invalid_message"),
        ({"type": "session.config", "model": "tts-9"}, "model_not_found"),
        ({"type": "session.config"}, None),
        ({"type": "session.config", "model": "tts-1", "loudness": 11}, "unknown_parameter"),
        ({"type": "session.config", "model": "tts-1", "input": "x"}, "unknown_parameter"),
        ({"type": "session.config", "model": "tts-1", "ref_text": "x"}, "unsupported_parameter"),
        ({"type": "session.config", "model": "tts-1", "word_timestamps": True}, "unsupported_parameter"),
        ({"type": "session.config", "model": "tts-1", "stream_audio": "yes"}, "invalid_value"),
        ({"type": "session.config", "model": "tts-1", "response_format": "midi"}, "invalid_value"),
    ],
)
def test_what_is_no_beginning_is_told_and_closes(gateway, engine, message, code):
    with talking(gateway) as talk:
        talk.socket.send(json.dumps(message) if isinstance(message, dict) else message)
        told = talk.hear()
        assert told["type"] == "error"
        assert told["message"] == told["error"]["message"]
        assert told["error"]["code"] == code
        assert talk.closed() == 1008
    assert engine.bodies == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"type": "session.sing"}, "invalid_message"),
        ({"type": "input.text", "text": 3}, "invalid_value"),
        ({"type": "input.text", "text": "x" * 51}, "string_above_max_length"),
        ({"type": "input.text", "text": "x" * 140_000}, "string_above_max_length"),
        ({"type": "session.config", "model": "tts-9"}, "model_not_found"),
    ],
)
def test_what_is_wrong_later_is_told_and_the_session_goes_on(gateway, fields, code):
    with talking(gateway) as talk:
        configured(talk).tell(**{"kind": fields["type"]} | {k: v for k, v in fields.items() if k != "type"})
        assert talk.hear()["error"]["code"] == code
        talk.tell("input.done")
        assert talk.hear() == {"type": "session.done", "utterance_index": 0, "total_sentences": 0}
        told, frames = talk.say("Hello.")
        assert (told[-1]["total_sentences"], len(frames)) == (1, 1)


def test_a_text_too_long_is_told_once_and_nothing_of_it_is_said(gateway, engine):
    with talking(gateway) as talk:
        told, frames = configured(talk).say("x" * 30, "x" * 30, "x" * 30)
    assert [event["type"] for event in told] == ["error", "session.done"]
    assert (frames, engine.bodies) == ([], [])


def test_no_new_configuration_in_the_midst_of_a_text(gateway):
    with talking(gateway) as talk:
        configured(talk).tell("input.text", text="Hello")
        configured(talk)
        assert "input is buffered" in talk.hear()["message"]


def test_a_message_too_long_closes(gateway):
    with talking(gateway) as talk:
        configured(talk, instructions="x" * 300_000)
        assert talk.closed() == 1009


def test_so_many_connections_and_no_more(gateway):
    with talking(gateway), talking(gateway), talking(gateway):
        with pytest.raises(InvalidStatus) as caught, talking(gateway):
            pass
        assert caught.value.response.status_code == 429
        assert caught.value.response.headers["retry-after"]
    with talking(gateway) as talk:
        assert configured(talk).say("Hello.")[1]


def test_so_many_utterances_wait_and_no_more(gateway, engine):
    engine.script = waits(0.5)
    with talking(gateway) as talk:
        configured(talk)
        for _ in range(9):
            talk.tell("input.text", text="x")
            talk.tell("input.done")
        told = [talk.hear(), talk.hear()]
    assert [event["type"] for event in told] == ["audio.start", "error"]
    assert told[1]["error"]["code"] == "rate_limit_exceeded"


def waits(seconds):
    def script(handler, body):
        time.sleep(seconds)
        with suppress(OSError):
            events(*SAID)(handler, body)

    return script


def test_idle_is_told_and_closes_but_work_is_no_idling(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))
    engine.script = None
    with running(engine.url, session_idle=0.8) as gateway:
        gateway.wait()
        engine.script = waits(1.2)
        with talking(gateway, {}) as talk:
            assert configured(talk).say("Hello.")[1]
            assert talk.hear()["error"]["code"] == "idle_timeout"
            assert talk.closed() == 1008


def test_an_engines_refusal_is_told_and_the_session_goes_on(gateway, engine):
    engine.script = lambda handler, body: handler.refuse(400, "no such voice", "BadRequestError")
    with talking(gateway) as talk:
        told, frames = configured(talk, voice="nobody").say("Hello.")
        assert [event["type"] for event in told] == ["audio.start", "error", "audio.done", "session.done"]
        assert told[1]["message"] == "no such voice"
        assert told[2]["error"] is True
        assert frames == []
        engine.script = events(*SAID)
        assert talk.say("Again.")[1]


@pytest.mark.parametrize("begun", [True, False])
def test_an_engine_that_dies_is_told_and_closes(gateway, engine, begun):
    def script(handler, body):
        if begun:
            events(delta(PCM[:9600]), end=False)(handler, body)
        else:
            cut(handler)

    engine.script = script
    with talking(gateway) as talk:
        configured(talk, response_format="pcm", stream_audio=True)
        talk.tell("input.text", text="Hello.")
        talk.tell("input.done")
        heard = [talk.hear() for _ in range(4 if begun else 3)]
        kinds = ["sound" if isinstance(each, bytes) else each["type"] for each in heard]
        assert kinds == ["audio.start", *(["sound"] if begun else []), "error", "audio.done"]
        assert heard[-2]["error"]["code"] == "upstream_broke"
        assert heard[-1]["error"] is True
        assert talk.closed() == 1011


def test_a_client_that_leaves_ends_the_engines_work(gateway, engine):
    gone = []

    def script(handler, body):
        head(handler, transfer_encoding="chunked")
        chunk(handler, f"data: {json.dumps(delta(PCM[:9600]))}\n\n".encode())
        began = time.monotonic()
        gone.append(left(handler) and time.monotonic() - began)

    engine.script = script
    with talking(gateway, BEARER | {"x-request-id": "leaving"}) as talk:
        configured(talk, response_format="pcm", stream_audio=True)
        talk.tell("input.text", text="Hello.")
        talk.tell("input.done")
        assert [type(talk.hear()) for _ in range(2)] == [dict, bytes]
    line = gateway.line("leaving")
    assert (line["status"], line["outcome"], line["route"]) == (101, "client_left", PATH)
    assert gateway.line("leaving-0")["outcome"] == "client_left"
    deadline = time.monotonic() + 2
    while not gone:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert gone[0] is not False
    assert gone[0] < 1


def test_a_deadline(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))
    engine.script = None
    with running(engine.url, speech_deadline=0.3) as gateway:
        gateway.wait()
        engine.script = waits(1.0)
        with talking(gateway, {}) as talk:
            configured(talk)
            talk.tell("input.text", text="Hello.")
            talk.tell("input.done")
            assert [talk.hear()["type"] for _ in range(1)] == ["audio.start"]
            assert talk.hear()["error"]["code"] == "deadline_exceeded"
            assert talk.closed() == 1011


def test_each_utterance_has_its_line_its_count_and_its_id_at_the_engine(gateway, engine):
    with talking(gateway, BEARER | {"x-request-id": "counted"}) as talk:
        assert talk.socket.response.headers["x-request-id"] == "counted"
        configured(talk).say("Hello.")
    line = gateway.line("counted-0")
    assert (line["route"], line["model"], line["status"], line["outcome"]) == (
        f"{PATH}#utterance",
        "tts-1",
        200,
        "complete",
    )
    assert {name.lower(): value for name, value in engine.headers[-1].items()}["x-request-id"] == "counted-0"
    session = gateway.line("counted")
    assert (session["outcome"], session["status"]) == ("complete", 101)
    assert "Hello" not in json.dumps([line, session])
    page = gateway.http.get("/metrics").text
    assert f'firstword_requests_total{{kind="speech",model="{MODEL}",outcome="complete",status="200"}}' in page
    assert f'firstword_audio_seconds_total{{kind="speech",model="{MODEL}"}}' in page


def test_an_unknown_address_is_refused(gateway):
    with pytest.raises(InvalidStatus) as caught:
        connect(f"{gateway.url.replace('http', 'ws')}/v1/nothing", additional_headers=BEARER, proxy=None)
    assert caught.value.response.status_code in (403, 404)


def test_a_gateway_that_stops_says_so(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))
    engine.script = None
    with ExitStack() as gateways:
        gateway = gateways.enter_context(running(engine.url))
        gateway.wait()
        with talking(gateway, {}) as talk:
            assert configured(talk).say("Hello.")[1]
            gateways.close()
            assert talk.closed() == 1012
    assert gateway.lines[-1].facts["route"] == PATH
