"""Transcriptions and translations before a scripted engine: each row of the table in docs/requests.md, and the rest."""

import base64
import io
import itertools
import json
import select
import socket
import threading
import urllib.parse
import wave

import httpx
import numpy as np
import openai
import pytest
from test_gateway_cutting import hour, in_film, sentences

from fake_engine import FakeEngine
from firstword.acceptance.client import TRANSCRIBE
from firstword.gateway import bodies
from gateway_kit import chunk, events, head, left, running
from sounds import encode, to_wav, voice

HEAR = "/v1/audio/transcriptions"
TRANSLATE = "/v1/audio/translations"
MODEL = "step-audio-2-mini-synthetic"
QWEN = "qwen3-tts-customvoice-synthetic"
SOUND = to_wav(voice(1.0, rate=16000), 16000)
LONG = to_wav(sentences([9, 8, 11, 7, 9, 10, 12])[0], 16000)


USAGE = {"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 5, "total_tokens": 45}}
USED = {"type": "tokens", "input_tokens": 40, "output_tokens": 5, "total_tokens": 45}


def said(*words, reason="stop", done=True):
    told = [{"choices": [{"delta": {"content": word}, "finish_reason": None}]} for word in words]
    return [*told, {"choices": [{"delta": {}, "finish_reason": reason}]}, *([USAGE, "[DONE]"] if done else [])]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, FakeEngine(MODEL) as step, FakeEngine(QWEN) as qwen:
        patch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path_factory.mktemp("run")))
        limits = {"upload_limit": 4_000_000, "audio_limit": 3700.0, "upstream_timeout": 5.0, "pieces": 2}
        with running(step.url, qwen.url, **limits) as gateway:
            gateway.wait()
            yield step, gateway


@pytest.fixture
def engine(stack):
    engine = stack[0]
    engine.script = events(*said(" Hello", ", world", "."))
    engine.bodies.clear()
    yield engine
    engine.script = None


@pytest.fixture
def gateway(stack):
    stack[1].wait()
    return stack[1]


def ask(gateway, sound=SOUND, path=HEAR, name="a.wav", status=200, **fields):
    answer = gateway.http.post(path, data={"model": MODEL} | fields, files={"file": (name, sound)}, timeout=60)
    assert answer.status_code == status, answer.text
    return answer


def refused(gateway, status=400, **fields):
    error = ask(gateway, status=status, **fields).json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def test_what_the_engine_is_asked(gateway, engine):
    answer = ask(gateway)
    assert answer.json() == {"text": "Hello, world.", "usage": USED}
    assert answer.headers["x-finish-reason"] == "stop"
    body = engine.bodies[-1]
    words, sound = body["messages"][0]["content"]
    assert words == {"type": "text", "text": TRANSCRIBE}
    with wave.open(io.BytesIO(base64.b64decode(sound["input_audio"]["data"]))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (16000, 1, 16000)
    assert (body["model"], body["modalities"], body["temperature"]) == (MODEL, ["text"], 0)


def test_language_prompt_and_temperature_reach_it(gateway, engine):
    ask(gateway, language="ja", prompt="Kumano, Tanaka", temperature="0.4")
    words = engine.bodies[-1]["messages"][0]["content"][0]["text"]
    assert words.startswith(TRANSCRIBE)
    assert "Japanese" in words
    assert "Kumano, Tanaka" in words
    assert engine.bodies[-1]["temperature"] == 0.4
    ask(gateway, model="whisper-1-zh")
    assert "Chinese" in engine.bodies[-1]["messages"][0]["content"][0]["text"]
    assert engine.bodies[-1]["model"] == MODEL


# The table in docs/requests.md, in its order.


def test_row_empty(gateway, engine):
    assert refused(gateway, sound=b"")["code"] == "empty_file"


def test_row_corrupt(gateway, engine):
    assert refused(gateway, sound=b"this is no recording at all")["code"] == "invalid_audio"
    assert engine.bodies == []


def test_row_too_short(gateway, engine):
    assert refused(gateway, sound=to_wav(voice(0.05)))["code"] == "audio_too_short"


def test_row_silent(gateway, engine):
    answer = ask(gateway, sound=to_wav(np.zeros(48000, np.float32)), response_format="verbose_json").json()
    assert (answer["text"], answer["segments"], answer["duration"]) == ("", [], 2.0)
    assert engine.bodies == []


def test_row_stereo(gateway, engine):
    assert ask(gateway, sound=to_wav(voice(1.0), channels=2)).json()["text"] == "Hello, world."


def test_row_8_khz(gateway, engine):
    assert ask(gateway, sound=to_wav(voice(1.0, rate=8000), 8000)).json()["text"] == "Hello, world."


def test_row_one_hour(gateway, engine):
    answer = ask(gateway, sound=hour(), name="hour.flac", response_format="verbose_json").json()
    assert answer["duration"] == 3600.0
    assert 12 <= len(answer["segments"]) <= 24
    assert answer["segments"][-1]["start"] <= 3300 < answer["segments"][-1]["end"]
    assert len(engine.bodies) == len(answer["segments"])  # the silent pieces are not asked about


def test_row_beyond_the_limit(gateway, engine):
    long = bytearray(encode(voice(1.0, rate=8000), "flac", rate=8000))
    long[21:26] = (long[21] & 0xF0).to_bytes(1) + (8000 * 20_000).to_bytes(4)  # as if it lasted 20,000 s
    assert refused(gateway, sound=bytes(long))["code"] == "audio_too_long"
    assert engine.bodies == []


def test_row_film(gateway, engine):
    assert ask(gateway, sound=in_film(), name="film.mp4").json()["text"] == "Hello, world."
    assert refused(gateway, sound=in_film(sound=False), name="film.mp4")["code"] == "no_audio"


def test_row_name_of_no_length(gateway, engine):
    content = (
        b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\n' + MODEL.encode() + b"\r\n"
        b'--x\r\ncontent-disposition: form-data; name="file"; filename=""\r\n\r\n' + SOUND + b"\r\n--x--\r\n"
    )
    answer = gateway.http.post(HEAR, content=content, headers={"content-type": "multipart/form-data; boundary=x"})
    assert answer.json()["text"] == "Hello, world."


def test_row_too_large(gateway, engine):
    error = refused(gateway, status=413, sound=bytes(4_000_001))
    assert error["code"] == "file_too_large"
    error = refused(gateway, status=413, sound=bytes(9_000_000))
    assert "4000000 bytes" in error["message"]


@pytest.mark.parametrize("fmt", ["mp3", "opus", "aac", "flac"])
def test_row_formats(gateway, engine, fmt):
    assert ask(gateway, sound=encode(voice(1.0), fmt)).json()["text"] == "Hello, world."


# What comes back.


def numbered(engine):
    """Make the engine tell each piece by its length, the later ones sooner."""
    lock, seen = threading.Lock(), []

    def script(handler, body):
        sound = base64.b64decode(body["messages"][0]["content"][1]["input_audio"]["data"])
        with lock:
            seen.append(len(sound))
        events(*said(f" {len(sound)}", " bytes"))(handler, body)

    engine.script = script
    return seen


def test_a_long_one_is_heard_in_pieces_and_told_in_order(gateway, engine):
    seen = numbered(engine)
    answer = ask(gateway, sound=LONG, response_format="verbose_json").json()
    segments = answer["segments"]
    assert len(segments) == len(seen) > 3
    assert answer["text"] == " ".join(segment["text"] for segment in segments)
    for before, after in itertools.pairwise(segments):
        assert before["end"] == after["start"]
    for segment in segments:
        assert 0 < segment["end"] - segment["start"] < 25
        assert segment["text"] == f"{44 + 2 * round((segment['end'] - segment['start']) * 16000)} bytes"
        assert segment["avg_logprob"] is None
    assert answer["duration"] == pytest.approx(segments[-1]["end"])
    assert (answer["task"], answer["language"]) == ("transcribe", "unknown")


def test_so_many_pieces_at_a_time_and_no_more(gateway, engine):
    lock, now, most = threading.Lock(), [0], [0]
    both = threading.Barrier(2, timeout=10)

    def script(handler, body):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        if len(engine.bodies) <= 2:
            both.wait()
        events(*said("x"))(handler, body)
        with lock:
            now[0] -= 1

    engine.script = script
    ask(gateway, sound=LONG)
    assert most[0] == 2


@pytest.mark.parametrize(
    ("words", "text"),
    [((" one", " two "), "one two"), (("你好", "。"), "你好。"), ((" <tts_st", "art><audio_12>", "x<|EOT|>"), "x")],
)
def test_texts_are_trimmed_joined_and_free_of_control_tokens(gateway, engine, words, text):
    engine.script = events(*said(*words))
    assert ask(gateway).json()["text"] == text
    long = ask(gateway, sound=LONG).json()["text"]
    between = "" if text.startswith("你") else " "
    assert long == between.join([text] * (len(engine.bodies) - 1))


def test_each_shape(gateway, engine):
    assert ask(gateway, response_format="text").text == "Hello, world.\n"
    srt = ask(gateway, response_format="srt")
    assert srt.text == "1\n00:00:00,000 --> 00:00:01,000\nHello, world.\n\n"
    assert srt.headers["content-type"].startswith("text/plain")
    vtt = ask(gateway, response_format="vtt")
    assert vtt.text == "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nHello, world.\n\n"
    assert vtt.headers["content-type"].startswith("text/vtt")
    verbose = ask(gateway, response_format="verbose_json", language="en", **{"timestamp_granularities[]": "segment"})
    assert verbose.json()["language"] == "english"


def test_cues_hold_no_text_that_reads_as_cues(gateway, engine):
    engine.script = events(*said("a --> b\n\n2\n<i>", "&"))
    assert ask(gateway, response_format="srt").text.endswith("\na -> b 2 <i>&\n\n")
    assert ask(gateway, response_format="vtt").text.endswith("\na -&gt; b 2 &lt;i&gt;&amp;\n\n")


def told(answer):
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


def test_a_stream_is_openais_events(gateway, engine):
    answer = ask(gateway, stream="true")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert told(answer) == [
        {"type": "transcript.text.delta", "delta": "Hello"},
        {"type": "transcript.text.delta", "delta": ", world"},
        {"type": "transcript.text.delta", "delta": "."},
        {"type": "transcript.text.done", "text": "Hello, world.", "usage": USED, "finish_reason": "stop"},
    ]
    numbered(engine)
    events_of = told(ask(gateway, sound=LONG, stream="true"))
    assert "".join(event["delta"] for event in events_of[:-1]) == events_of[-1]["text"]
    assert events_of[-1]["text"] == ask(gateway, sound=LONG).json()["text"]


def test_a_stream_comes_while_the_engine_goes_on(gateway, engine):
    go_on = threading.Event()
    first, *rest = said("one", " two")
    engine.script = events(first, lambda: go_on.wait(10), *rest)
    with gateway.http.stream(
        "POST", HEAR, data={"model": MODEL, "stream": "true"}, files={"file": ("a.wav", SOUND)}
    ) as answer:
        lines = answer.iter_lines()
        assert "one" in next(lines)
        go_on.set()
        assert "one two" in "".join(lines)


def test_a_silent_stream_is_an_empty_text(gateway, engine):
    answer = ask(gateway, sound=to_wav(np.zeros(24000, np.float32)), stream="true")
    nothing = dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), 0)
    done = {"text": "", "usage": {"type": "tokens", **nothing}, "finish_reason": "stop"}
    assert told(answer) == [{"type": "transcript.text.done", **done}]


def test_usage_is_of_all_pieces_in_tokens_or_in_seconds_as_openai_has_it(gateway, engine):
    usage = ask(gateway, sound=LONG).json()["usage"]
    assert len(engine.bodies) > 1
    assert usage["input_tokens"] == 40 * len(engine.bodies)
    assert usage["total_tokens"] == 45 * len(engine.bodies)
    assert engine.bodies[-1]["stream_options"] == {"include_usage": True}
    seconds = {"type": "duration", "seconds": 1}
    assert ask(gateway, model="whisper-1").json()["usage"] == seconds
    assert ask(gateway, response_format="verbose_json").json()["usage"] == seconds


def test_a_translation(gateway, engine):
    answer = ask(gateway, path=TRANSLATE, response_format="verbose_json").json()
    assert (answer["task"], answer["language"], answer["text"]) == ("translate", "english", "Hello, world.")
    assert "English" in engine.bodies[-1]["messages"][0]["content"][0]["text"]
    assert ask(gateway, path=TRANSLATE).json() == {"text": "Hello, world."}
    assert refused(gateway, path=TRANSLATE, language="en")["param"] == "language"


# What is refused, and what fails.


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        (
            {"timestamp_granularities[]": "word", "response_format": "verbose_json"},
            "timestamp_granularities",
            "unsupported_parameter",
        ),
        ({"timestamp_granularities[]": "segment"}, "timestamp_granularities", "unsupported_parameter"),
        ({"include[]": "logprobs"}, "include", "unsupported_parameter"),
        ({"chunking_strategy": '{"type": "server_vad"}'}, "chunking_strategy", "unsupported_parameter"),
        ({"stream": "true", "response_format": "srt"}, "stream", "unsupported_parameter"),
        ({"colour": "red"}, "colour", "unknown_parameter"),
        ({"known_speaker_names[]": "Ann"}, "known_speaker_names", "unknown_parameter"),
        ({"response_format": "diarized_json"}, "response_format", "invalid_value"),
        ({"temperature": "2"}, "temperature", "invalid_value"),
        ({"stream": "perhaps"}, "stream", "invalid_value"),
    ],
)
def test_what_cannot_be_given_is_refused_by_name(gateway, engine, fields, param, code):
    error = refused(gateway, **fields)
    assert (error["param"], error["code"]) == (param, code)
    assert engine.bodies == []


def test_auto_chunking_is_what_is_done(gateway, engine):
    assert ask(gateway, chunking_strategy="auto").json()["text"]


def test_models_that_do_not_listen_are_refused(gateway, engine):
    error = refused(gateway, model=QWEN)
    assert "/v1/audio/speech" in error["message"]
    assert refused(gateway, status=404, model="none")["code"] == "model_not_found"


def test_what_is_no_form(gateway):
    assert gateway.http.post(HEAR, json={"model": MODEL}).status_code == 415
    for data in (b"", b"--x", b"--x\r\ncontent-disposition: form-data\r\n\r\n1\r\n--x--\r\n"):
        answer = gateway.http.post(HEAR, content=data, headers={"content-type": "multipart/form-data; boundary=x"})
        assert answer.status_code == 400, data
    assert gateway.http.post(HEAR, data={"model": MODEL}, files={"model": (None, MODEL)}).status_code == 400
    assert gateway.http.post(HEAR, files={"model": (None, MODEL), "file": (None, "text")}).status_code == 400
    two = [("model", (None, MODEL)), ("file", ("a", SOUND)), ("file", ("b", SOUND))]
    assert gateway.http.post(HEAR, files=two).status_code == 400


def test_a_text_without_end_is_told(gateway, engine):
    engine.script = events(*said("la la la", reason="length"))
    assert refused(gateway, status=502)["code"] == "transcript_without_end"


@pytest.mark.parametrize(
    "script",
    [events(*said("half")[:1], end=False), events(*said("half", done=False)), events({"error": {"message": "x"}})],
)
def test_an_engine_that_breaks_off(gateway, engine, script):
    engine.script = script
    assert refused(gateway, status=502)["code"] == "upstream_broke"
    with (
        gateway.http.stream(
            "POST", HEAR, data={"model": MODEL, "stream": "true"}, files={"file": ("a.wav", SOUND)}
        ) as answer,
    ):
        if answer.status_code == 200:
            with pytest.raises(httpx.RemoteProtocolError):
                answer.read()
        else:
            assert answer.status_code == 502


def test_one_bad_piece_fails_it_all_and_frees_the_engine(gateway, engine):
    """The others, still in work, are closed."""
    lock, noticed = threading.Lock(), []

    def script(handler, body):
        with lock:
            number = len(noticed)
            noticed.append(None)
        if number == 1:
            return events({"error": {"message": "broken piece"}})(handler, body)
        head(handler, transfer_encoding="chunked")
        noticed[number] = left(handler)
        handler.close_connection = True
        return None

    engine.script = script
    assert "broken piece" in refused(gateway, status=502, sound=LONG)["message"]
    gateway.until(lambda _: noticed[0] is not None)
    assert noticed[0] is True


def test_a_client_that_leaves_frees_the_engine(gateway, engine):
    noticed = []

    def script(handler, body):
        head(handler, transfer_encoding="chunked")
        chunk(handler, b'data: {"choices": [{"delta": {"content": "one"}}]}\n\n')
        noticed.append(left(handler))
        handler.close_connection = True

    engine.script = script
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            gateway.url + HEAR, data={"model": MODEL}, files={"file": ("a.wav", SOUND)}, timeout=0.5, trust_env=False
        )
    gateway.until(lambda _: bool(noticed))
    assert noticed == [True]


@pytest.mark.parametrize("pace", [None, 0.05], ids=["silent", "dripping"])
def test_a_recording_that_does_not_come_loses_its_room(gateway, monkeypatch, pace):
    monkeypatch.setattr(bodies, "SILENCE_SECONDS", 0.3)
    monkeypatch.setattr(bodies, "WHOLE_SECONDS", 0.6)
    address = urllib.parse.urlsplit(gateway.url)
    start = (
        f"POST {HEAR} HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 4000000"
    )
    with socket.create_connection((address.hostname, address.port), timeout=10) as client:
        client.sendall(f"{start}\r\n\r\n--x\r\n".encode())
        while pace and not select.select([client], [], [], pace)[0]:
            client.sendall(b"C")
        told = b"".join(iter(lambda: client.recv(4096), b"")).decode()
    assert told.startswith("HTTP/1.1 408")
    assert '"code":"request_timeout"' in told


def test_memory_for_recordings_is_bounded(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))
    over = threading.Event()
    asked = threading.Event()
    engine.script = None
    with running(engine.url, uploads_memory=50_000) as gateway:
        gateway.wait()
        engine.script = events(asked.set, lambda: over.wait(10), *said("x"))
        answers = []
        thread = threading.Thread(target=lambda: answers.append(ask(gateway).status_code))
        thread.start()
        assert asked.wait(10)
        error = ask(gateway, status=429)
        assert error.headers["retry-after"]
        over.set()
        thread.join()
        assert answers == [200]
        assert ask(gateway).json()["text"] == "x"


def test_the_openai_sdk(gateway, engine):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        assert client.audio.transcriptions.create(model="whisper-1", file=("a.wav", SOUND)).text == "Hello, world."
        verbose = client.audio.transcriptions.create(
            model="whisper-1",
            file=("a.wav", SOUND),
            response_format="verbose_json",
            timestamp_granularities=["segment"],
        )
        assert verbose.segments[0].text == "Hello, world."
        assert client.audio.transcriptions.create(model="whisper-1", file=("a.wav", SOUND), response_format="vtt")
        stream = client.audio.transcriptions.create(model="gpt-4o-transcribe", file=("a.wav", SOUND), stream=True)
        assert [event.type for event in stream][-1] == "transcript.text.done"
        assert client.audio.translations.create(model="whisper-1", file=("a.wav", SOUND)).text == "Hello, world."
