"""Spoken answers before a scripted engine: OpenAI's own request, its answer, its stream."""

import base64
import json
import threading

import httpx
import openai
import pytest

from fake_engine import FakeEngine
from firstword.acceptance.audio import decode
from gateway_kit import chunk, events, head, left, running
from sounds import to_pcm, voice

PATH = "/v1/chat/completions"
MODEL = "step-audio-2-mini-synthetic"
QWEN = "qwen3-tts-customvoice-synthetic"
PCM = to_pcm(voice(1.2))
ASKED = [{"role": "user", "content": "How are you?"}]
BODY = {
    "model": MODEL,
    "messages": ASKED,
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "wav"},
}
FRAME = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": MODEL}
USAGE = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}


def b64(data):
    return base64.b64encode(data).decode()


def text(content, reason=None):
    return FRAME | {
        "modality": "text",
        "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": reason}],
    }


def sound(samples, reason=None):
    delta = {"role": "assistant", "content": b64(samples)}
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return FRAME | {"modality": "audio", "choices": [choice], "usage": USAGE | {"completion_tokens": 0}}


STREAM = (
    text("<tts_start> I am"),
    text("<audio_12><aud"),
    text("io_3>"),
    sound(PCM[:20001]),
    text(" fine."),
    sound(PCM[20001:], "stop"),
    FRAME | {"choices": [], "usage": USAGE},
    "[DONE]",
)


def plain(*choices):
    document = {"id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": MODEL, "usage": USAGE}

    def script(handler, body):
        data = json.dumps(document | {"choices": list(choices)}).encode()
        head(handler, "application/json", content_length=str(len(data)))
        handler.wfile.write(data)

    return script


WRITTEN = {
    "index": 0,
    "message": {"role": "assistant", "content": "<tts_start> I am<audio_12><audio_3> fine.<audio_4>"},
    "finish_reason": "length",
}
SPOKEN = {
    "index": 0,
    "message": {"role": "assistant", "content": None, "audio": {"id": "a", "data": b64(PCM), "transcript": ""}},
    "finish_reason": "stop",
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, FakeEngine(MODEL) as step, FakeEngine(QWEN) as qwen:
        patch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path_factory.mktemp("run")))
        with running(step.url, qwen.url, upstream_timeout=2.0) as gateway:
            gateway.wait()
            yield step, qwen, gateway


@pytest.fixture
def engine(stack):
    engine = stack[0]

    def script(handler, body):
        (events(*STREAM) if body.get("stream") else plain(WRITTEN, SPOKEN))(handler, body)

    engine.script = script
    engine.bodies.clear()
    yield engine
    engine.script = None


@pytest.fixture
def gateway(stack):
    stack[2].wait()
    return stack[2]


def ask(gateway, status=200, **fields):
    answer = gateway.http.post(PATH, json=BODY | fields)
    assert answer.status_code == status, answer.text
    return answer


def told(answer):
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]


def test_what_the_engine_is_asked(gateway, engine):
    ask(gateway, seed=3, audio={"voice": {"id": "nova"}, "format": "mp3"})
    assert engine.bodies[-1] == {
        "model": MODEL,
        "messages": [*ASKED, {"role": "assistant", "content": "<tts_start>"}],
        "modalities": ["text", "audio"],
        "audio": {"format": "pcm16", "voice": "nova"},
        "continue_final_message": True,
        "add_generation_prompt": False,
        "seed": 3,
    }


def test_who_began_the_answer_himself_is_left_alone(gateway, engine):
    began = [*ASKED, {"role": "assistant", "content": "<tts_start>"}]
    ask(gateway, messages=began, continue_final_message=True, add_generation_prompt=False, modalities=["audio"])
    assert engine.bodies[-1]["messages"] == began


@pytest.mark.parametrize("fmt", ["wav", "mp3", "opus", "aac", "flac", "pcm16", None])
def test_a_plain_answer_is_openais(gateway, engine, fmt):
    fields = {"audio": {"voice": "alloy", "format": fmt}} if fmt else {"audio": None}
    answer = ask(gateway, **fields).json()
    assert (answer["id"], answer["object"], answer["usage"]) == ("chatcmpl-1", "chat.completion", USAGE)
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "length"
    message = choice["message"]
    assert message["content"] is None
    assert message["audio"]["transcript"] == "I am fine."
    made = decode(base64.b64decode(message["audio"]["data"]), raw=fmt == "pcm16")
    assert made.seconds == pytest.approx(1.2, abs=0.13)
    assert not made.container.cut
    assert not made.container.streamed


def test_a_plain_answer_without_sound_is_its_text(gateway, engine):
    engine.script = plain(WRITTEN)
    message = ask(gateway).json()["choices"][0]["message"]
    assert message["content"] == " I am fine."
    assert "audio" not in message


@pytest.mark.parametrize("fmt", ["pcm16", "wav", "mp3", "opus", "aac", "flac"])
def test_a_streamed_answer_is_openais(gateway, engine, fmt):
    answer = ask(gateway, stream=True, audio={"voice": "alloy", "format": fmt})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("data: [DONE]\n\n")
    chunks = told(answer)
    assert all(chunk.items() >= FRAME.items() for chunk in chunks)
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert deltas[0]["role"] == "assistant"
    assert not any(delta.get("content") for delta in deltas)
    audio = [delta["audio"] for delta in deltas if "audio" in delta]
    assert len({each["id"] for each in audio}) == 1
    assert "".join(each.get("transcript", "") for each in audio) == "I am fine."
    made = decode(b"".join(base64.b64decode(each.get("data", "")) for each in audio), raw=fmt == "pcm16")
    assert made.seconds == pytest.approx(1.2, abs=0.13)
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == USAGE


def test_a_streamed_answer_without_sound_is_its_text(gateway, engine):
    # A line separator is no end of a line here.
    first = json.dumps(text("<tts_start>Fine,\u2028"), ensure_ascii=False)
    engine.script = events(first, text("thanks <"), text("3", "stop"), "[DONE]")
    chunks = told(ask(gateway, stream=True))
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Fine,\u2028thanks <3"
    assert not any("audio" in delta for delta in deltas)


def test_sound_comes_while_the_engine_goes_on(gateway, engine):
    go_on = threading.Event()
    engine.script = events(sound(PCM[:20000]), lambda: go_on.wait(10), sound(PCM[20000:], "stop"), "[DONE]")
    with gateway.http.stream("POST", PATH, json=BODY | {"stream": True, "audio": {"format": "pcm16"}}) as answer:
        lines = answer.iter_lines()
        while '"data"' not in next(lines):
            pass
        go_on.set()
        assert "[DONE]" in "".join(lines)


def test_a_chat_in_text_passes_byte_for_byte(gateway, engine):
    engine.script = None
    answer = ask(gateway, modalities=["text"])
    assert answer.json()["choices"][0]["message"]["content"] == engine.text
    assert engine.bodies[-1] == BODY | {"modalities": ["text"]}
    ask(gateway, modalities=["text"], model="gpt-4o-transcribe")
    assert engine.bodies[-1]["model"] == MODEL


def test_a_model_that_only_speaks_text_names_the_right_place(stack, gateway):
    qwen = stack[1]
    qwen.bodies.clear()
    for modalities in (["text"], ["text", "audio"], None):
        for stream in (False, True):
            error = ask(gateway, 400, model=QWEN, modalities=modalities, stream=stream).json()["error"]
            assert "/v1/audio/speech" in error["message"]
            assert (error["param"], error["code"]) == ("model", "unsupported_model")
    assert ask(gateway, 400, model="tts-1").json()["error"]["code"] == "unsupported_model"
    assert qwen.bodies == []


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"audio": {"voice": "alloy", "format": "ogg"}}, "audio.format"),
        ({"audio": {"voice": "alloy", "format": ["wav"]}}, "audio.format"),
        ({"audio": {"speed": 2}}, "audio.speed"),
        ({"audio": "wav"}, "audio"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [*ASKED, {"role": "assistant", "audio": {"id": "audio_1"}}, *ASKED]}, "messages"),
    ],
)
def test_what_is_wrong_is_named_and_never_asked(gateway, engine, fields, param):
    assert ask(gateway, 400, **fields).json()["error"]["param"] == param
    assert engine.bodies == []


@pytest.mark.parametrize(
    "script",
    [
        events(sound(PCM[:9600]), end=False),
        events(sound(PCM[:9600])),
        events(sound(PCM[:9600]), {"error": {"message": "stage 1"}}),
        events(sound(PCM[:9600]), sound(b"")["choices"][0]["delta"] | {"choices": 3}),
        events(sound(PCM[:9601], "stop"), "[DONE]"),
    ],
)
def test_a_stream_that_fails_never_ends_as_complete(gateway, engine, script):
    engine.script = script
    got = []
    with (
        gateway.http.stream("POST", PATH, json=BODY | {"stream": True}) as answer,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        got.extend(answer.iter_raw())
    assert b"data: [DONE]" not in b"".join(got)


def test_a_plain_answer_that_fails_has_its_status(gateway, engine):
    for script in (plain({"message": 3}), plain({}), events(sound(PCM), end=False)):
        engine.script = script
        assert ask(gateway, 502).json()["error"]["code"] in ("upstream_broke", "bad_upstream")
    engine.script, engine.error = None, 400
    try:
        assert ask(gateway, 400).json()["error"]["message"] == "it broke"
    finally:
        engine.error = 0


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_the_engine(gateway, engine, stream):
    noticed = []

    def script(handler, body):
        head(handler, transfer_encoding="chunked")
        chunk(handler, b"data: " + json.dumps(sound(PCM[:9600])).encode() + b"\n\n")
        noticed.append(left(handler))
        handler.close_connection = True

    engine.script = script
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(gateway.url + PATH, json=BODY | {"stream": stream}, timeout=0.5, trust_env=False)
    gateway.until(lambda _: bool(noticed))
    assert noticed == [True]


def test_the_openai_sdk(gateway, engine):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        chat = client.chat.completions
        message = chat.create(**BODY).choices[0].message
        assert message.audio.transcript == "I am fine."
        assert decode(base64.b64decode(message.audio.data)).seconds == pytest.approx(1.2)
        stream = chat.create(**BODY | {"audio": {"voice": "alloy", "format": "pcm16"}, "stream": True})
        audio = [choice.delta.audio for event in stream for choice in event.choices if hasattr(choice.delta, "audio")]
        assert b"".join(base64.b64decode(each["data"]) for each in audio if "data" in each) == PCM
