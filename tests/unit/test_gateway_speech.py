"""``/v1/audio/speech`` before a scripted engine: the request, the formats, and every way to fail."""

import base64
import io
import json
import threading
import wave
from contextlib import suppress

import httpx
import openai
import pytest

from fake_engine import FakeEngine
from firstword.acceptance.audio import decode
from gateway_kit import chunk, cut, events, head, left, running
from sounds import to_pcm, voice

PATH = "/v1/audio/speech"
MODEL = "qwen3-tts-customvoice-synthetic"
STEP = "step-audio-2-mini-synthetic"
BODY = {"model": MODEL, "input": "Hello.", "voice": "ryan"}
SOUND = voice(1.2)
PCM = to_pcm(SOUND)
USAGE = {"input_tokens": 3, "output_tokens": 15, "total_tokens": 18}
DONE = {"type": "speech.audio.done", "usage": USAGE}


def delta(samples=PCM[:9600]):
    return {"type": "speech.audio.delta", "audio": base64.b64encode(samples).decode()}


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, FakeEngine(MODEL) as qwen, FakeEngine(STEP) as step:
        patch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path_factory.mktemp("run")))
        with running(qwen.url, step.url, upstream_timeout=1.0, speech_characters=50) as gateway:
            gateway.wait()
            yield qwen, step, gateway


@pytest.fixture
def engine(stack):
    engine = stack[0]
    engine.script = events(delta(PCM[:20001]), delta(PCM[20001:40000]), delta(PCM[40000:]), DONE)
    engine.bodies.clear()
    yield engine
    engine.script = None


@pytest.fixture
def gateway(stack):
    stack[2].wait()
    return stack[2]


def say(gateway, status=200, **fields):
    answer = gateway.http.post(PATH, json=BODY | fields)
    assert answer.status_code == status, answer.text
    return answer


def refused(gateway, **fields):
    return say(gateway, 400, **fields).json()["error"]


@pytest.mark.parametrize(
    ("fmt", "kind", "streamed"),
    [
        (None, "audio/mpeg", True),
        ("mp3", "audio/mpeg", True),
        ("opus", "audio/ogg", True),
        ("aac", "audio/aac", True),
        ("flac", "audio/flac", True),
        ("pcm", "audio/pcm", True),
        ("wav", "audio/wav", False),
    ],
)
def test_each_format_has_its_type_and_the_whole_sound(gateway, engine, fmt, kind, streamed):
    answer = say(gateway, **({"response_format": fmt} if fmt else {}))
    assert answer.headers["content-type"] == kind
    assert ("content-length" in answer.headers) is not streamed
    sound = decode(answer.content, raw=fmt == "pcm")
    assert sound.seconds == pytest.approx(1.2, abs=0.13)
    assert not sound.container.cut
    assert not sound.trouble


def test_a_wav_is_exact_or_a_stream(gateway, engine):
    for fields in ({}, {"stream_format": "audio"}):
        body = say(gateway, response_format="wav", **fields).content
        with wave.open(io.BytesIO(body)) as file:
            assert file.readframes(file.getnframes()) == PCM
        assert (body[40:44] == b"\xff" * 4) is bool(fields)


@pytest.mark.parametrize("fmt", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_the_first_bytes_come_before_the_engine_ends(gateway, engine, fmt):
    go_on = threading.Event()
    engine.script = events(delta(PCM[:19200]), lambda: go_on.wait(10), delta(PCM[19200:]), DONE)
    body = BODY | {"response_format": fmt, "stream_format": "audio"}
    with gateway.http.stream("POST", PATH, json=body) as answer:
        pieces = answer.iter_raw()
        assert next(pieces)
        go_on.set()
        assert list(pieces)


@pytest.mark.parametrize("fmt", ["mp3", "pcm", "opus"])
def test_events_are_openais(gateway, engine, fmt):
    answer = say(gateway, response_format=fmt, stream_format="sse")
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    told = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
    assert [name.removeprefix("event: ") for name, _ in blocks] == [event["type"] for event in told]
    assert {event["type"] for event in told[:-1]} == {"speech.audio.delta"}
    assert told[-1] == DONE | {"finish_reason": "stop"}
    sound = decode(b"".join(base64.b64decode(event["audio"]) for event in told[:-1]), raw=fmt == "pcm")
    assert sound.seconds == pytest.approx(1.2, abs=0.13)


def test_vllm_omnis_switch_means_events(gateway, engine):
    assert say(gateway, stream=True).headers["content-type"].startswith("text/event-stream")
    assert say(gateway, stream=True, stream_format="audio").headers["content-type"] == "audio/mpeg"
    assert say(gateway, stream=False, response_format="wav").headers["content-length"]


@pytest.mark.parametrize("fmt", ["mp3", "wav", "pcm"])
@pytest.mark.parametrize("speed", [0.25, 2, 4.0])
def test_speed_is_followed_streamed_too(gateway, engine, fmt, speed):
    for fields in ({}, {"stream_format": "audio"}):
        answer = say(gateway, response_format=fmt, speed=speed, **fields)
        assert decode(answer.content, raw=fmt == "pcm").seconds == pytest.approx(1.2 / speed, abs=0.2)
    assert "speed" not in engine.bodies[-1]


def test_what_the_engine_is_asked(gateway, engine):
    fields = {
        "instructions": "Softly.",
        "language": "es",
        "seed": 3,
        "max_new_tokens": 90,
        "extra_params": {"top_k": 5},
    }
    say(gateway, voice={"id": "vivian"}, response_format="flac", speed=1.5, **fields)
    assert engine.bodies[-1] == {
        "model": MODEL,
        "input": "Hello.",
        "voice": "vivian",
        **fields,
        "language": "Spanish",
        "response_format": "pcm",
        "stream_format": "sse",
    }


@pytest.mark.parametrize(
    ("told", "asked"),
    [("en", "English"), ("EN-us", "English"), ("spanish", "Spanish"), ("Auto", "Auto"), ("zh", "Chinese")],
)
def test_languages_by_tag_or_name(gateway, engine, told, asked):
    say(gateway, language=told)
    assert engine.bodies[-1]["language"] == asked


def test_openais_voices_are_real_ones(gateway, engine):
    for name, real in {"alloy": "ryan", "NOVA": "vivian", "ryan": "ryan", "somebody": "somebody"}.items():
        say(gateway, voice=name)
        assert engine.bodies[-1]["voice"] == real


@pytest.mark.parametrize(
    ("name", "language"), [("tts-1", None), ("tts-1-hd", None), ("gpt-4o-mini-tts", None), ("tts-1-es", "Spanish")]
)
def test_openais_models_are_real_ones(gateway, engine, name, language):
    say(gateway, model=name)
    assert engine.bodies[-1]["model"] == MODEL
    assert engine.bodies[-1].get("language") == language
    told = gateway.http.get(f"/v1/models/{name}").json()
    assert (told["id"], told["alias_of"], told.get("language")) == (name, MODEL, "es" if language else None)
    say(gateway, model=name, language="fr")
    assert engine.bodies[-1]["language"] == "French"


def test_a_name_with_no_language_of_the_model_is_no_model(gateway, engine):
    answer = say(gateway, 404, model="tts-1-xx")
    assert answer.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"colour": "red", "pitch": 2}, ["colour", "pitch"]),
        ({"word_timestamps": True}, ["word_timestamps"]),
        ({"ref_audio": "data:,", "ref_text": "x"}, ["ref_audio", "ref_text"]),
        ({"response_format": "ogg"}, ["response_format"]),
        ({"speed": 5}, ["speed"]),
        ({"speed": "fast"}, ["speed"]),
        ({"speed": float("nan")}, []),
        ({"input": 3}, ["input"]),
        ({"input": "x" * 51}, ["input", "50"]),
        ({"voice": {"id": 3}}, ["voice"]),
        ({"voice": {"name": "ryan"}}, ["voice"]),
        ({"language": "ar"}, ["language", "es"]),
        ({"stream_format": "raw"}, ["stream_format"]),
    ],
)
def test_what_cannot_be_followed_is_named_and_never_asked(gateway, engine, fields, named):
    content = json.dumps(BODY | fields)
    answer = gateway.http.post(PATH, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    for word in named:
        assert word in answer.json()["error"]["message"]
    assert engine.bodies == []


def test_step_audio_refuses_what_it_would_ignore(stack, gateway):
    step = stack[1]
    step.bodies.clear()
    error = refused(gateway, model=STEP, language="en", task_type="CustomVoice", voice="alloy")
    assert "language, task_type" in error["message"]
    assert error["param"] == "language"
    assert step.bodies == []
    say(gateway, model=STEP, voice="alloy", instructions="Whisper.")  # its engine knows OpenAI's names itself
    assert step.bodies[-1]["voice"] == "alloy"


def test_an_engines_refusal_comes_before_anything_else(gateway, engine):
    engine.error, engine.script = 400, None
    try:
        assert refused(gateway)["message"] == "it broke"
    finally:
        engine.error = 0


@pytest.mark.parametrize(
    "script",
    [
        events(delta(), end=False),
        events(delta()),
        events(delta(), {"type": "speech.audio.error", "error": {"message": "stage 1 failed"}}),
        events(delta(), "no JSON"),
        events(delta(), {"type": "surprise"}),
        events(delta(), {"type": "speech.audio.delta"}),
        events(delta(PCM[:9601]), DONE),
    ],
)
@pytest.mark.parametrize("fmt", ["pcm", "mp3"])
def test_a_stream_that_fails_never_ends_as_complete(gateway, engine, script, fmt):
    engine.script = script
    body = BODY | {"response_format": fmt}
    with (
        gateway.http.stream("POST", PATH, json=body) as answer,
        pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"),
    ):
        list(answer.iter_raw())


def test_failing_events_end_with_an_error_event(gateway, engine):
    engine.script = events(delta(), {"type": "speech.audio.error", "error": {"message": "stage 1 failed"}})
    got = []
    headers = {"x-request-id": "failing-events"}
    with (
        gateway.http.stream("POST", PATH, json=BODY | {"stream_format": "sse"}, headers=headers) as answer,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        got.extend(answer.iter_raw())
    last = b"".join(got).decode().strip().split("\n\n")[-1].split("\n")
    assert last[0] == "event: error"
    error = json.loads(last[1].removeprefix("data: "))["error"]
    assert error["code"] == "upstream_broke"
    assert "stage 1 failed" in error["message"]
    assert gateway.line("failing-events")["outcome"] == "upstream_broke"


@pytest.mark.parametrize("script", [events(delta(), end=False), events(DONE), events(delta())])
def test_a_wav_that_fails_has_its_status(gateway, engine, script):
    engine.script = script
    error = say(gateway, 502, response_format="wav").json()["error"]
    assert error["code"] == "upstream_broke"


def test_an_engine_that_falls_silent_breaks_the_stream(gateway, engine):
    over = threading.Event()
    engine.script = events(delta(), lambda: over.wait(10))
    try:
        with gateway.http.stream("POST", PATH, json=BODY) as answer, pytest.raises(httpx.RemoteProtocolError):
            list(answer.iter_raw())
    finally:
        over.set()


@pytest.mark.parametrize("fmt", ["pcm", "wav"])
def test_a_client_that_leaves_cancels_the_engines_work(gateway, engine, fmt):
    """Also where nothing was sent yet, as for a WAV with its length in front."""
    noticed, asked = [], threading.Event()

    def script(handler, body):
        head(handler, transfer_encoding="chunked")
        chunk(handler, f"data: {json.dumps(delta())}\n\n".encode())
        asked.set()
        noticed.append(left(handler))
        handler.close_connection = True

    engine.script = script
    body = BODY | {"response_format": fmt}
    with (
        suppress(httpx.ReadTimeout),
        httpx.stream("POST", gateway.url + PATH, json=body, timeout=0.5, trust_env=False) as answer,
    ):
        next(answer.iter_raw())
    assert asked.wait(5)
    gateway.until(lambda _: bool(noticed))
    assert noticed == [True]


def test_the_openai_sdk(gateway, engine):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.audio.speech.create(model="tts-1", voice="alloy", input="Hello.")
        assert decode(answer.content).seconds == pytest.approx(1.2, abs=0.13)
        with pytest.raises(openai.BadRequestError, match="colour"):
            client.audio.speech.create(model="tts-1", voice="alloy", input="Hello.", extra_body={"colour": "red"})


def test_a_broken_connection_before_the_answer(gateway, engine):
    engine.script = lambda handler, body: cut(handler)
    assert say(gateway, 502).json()["error"]["code"] == "upstream_broke"


@pytest.mark.parametrize(("most", "reason"), [(16, "stop"), (15, "length"), (None, "stop")])
def test_why_the_model_ended_is_told(gateway, engine, most, reason):
    limit = {} if most is None else {"max_new_tokens": most}
    assert say(gateway, response_format="wav", **limit).headers["x-finish-reason"] == reason
    events = say(gateway, stream_format="sse", **limit).text
    assert json.loads(events.strip().rpartition("data: ")[2])["finish_reason"] == reason
    assert "x-finish-reason" not in say(gateway, response_format="pcm", **limit).headers
    page = gateway.http.get("/metrics").text
    assert f'firstword_finish_total{{kind="speech",model="{MODEL}",reason="{reason}"}}' in page
