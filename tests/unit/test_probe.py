"""``firstword probe`` against a server that answers, and one that only seems to."""

import contextlib
import json
import socket
import threading

import numpy as np
import pytest

from fake_engine import FakeEngine
from firstword.acceptance import kinds, plain, probe
from firstword.acceptance.asking import Server, ask
from firstword.acceptance.client import Client
from firstword.acceptance.errors import TimedOutError
from firstword.acceptance.judge import judge_speech
from firstword.acceptance.recording import vowels
from firstword.cli import main
from firstword.errors import Exit, FirstwordError
from sounds import RATE, to_wav, voice


@pytest.fixture
def engine():
    with FakeEngine() as engine:
        yield engine


@pytest.fixture
def nobody():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{free.getsockname()[1]}"


CATALOGUE = {
    "qwen3-tts-1.7b-customvoice": ["speech"],
    "qwen3-tts-0.6b-customvoice": ["speech"],
    "qwen3-tts-1.7b-voicedesign": ["voice-design"],
    "qwen3-tts-1.7b-base": ["voice-clone"],
    "qwen3-tts-0.6b-base": ["voice-clone"],
    "step-audio-2-mini": ["speech", "transcription", "spoken-answer"],
    "qwen3-tts-customvoice-synthetic": ["speech"],
    "qwen3-tts-voicedesign-synthetic": ["voice-design"],
    "qwen3-tts-base-synthetic": ["voice-clone"],
    "step-audio-2-mini-synthetic": ["speech", "transcription", "spoken-answer"],
    "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice": ["speech"],
    "/models/Qwen3-TTS-12Hz-0.6B-Base": ["voice-clone"],
    "stepfun-ai/Step-Audio-2-mini": ["speech", "transcription", "spoken-answer"],
    "gpt-4o": [],
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_name_tells_the_kinds(name):
    assert list(kinds.kinds_of(name)) == CATALOGUE[name]


def test_recognition_alone():
    assert kinds.kinds_of("step-audio-2-mini", has_audio_out=False) == ("transcription",)


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("qwen3-tts-customvoice-synthetic", ["speech"]),
        ("qwen3-tts-voicedesign-synthetic", ["voice design"]),
        ("qwen3-tts-base-synthetic", ["voice clone", "voice clone in context"]),
        ("step-audio-2-mini-synthetic", ["speech", "transcription", "spoken answer"]),
    ],
)
def test_every_kind_is_asked_for(engine, model, names, capsys):
    engine.model = model
    assert main(["probe", engine.url]) == Exit.OK
    assert [line.split("  ")[1].split(":")[0] for line in capsys.readouterr().out.splitlines()] == names
    assert len(engine.bodies) == len(names)
    assert all(body["model"] == model for body in engine.bodies)


def test_what_each_kind_sends(engine):
    for model in ("qwen3-tts-customvoice", "qwen3-tts-voicedesign", "qwen3-tts-base", "step-audio-2-mini"):
        engine.model = model
        assert ask(Server(engine.url)).ok
    speech, design, clone, in_context, step, transcription, spoken = engine.bodies
    assert speech["voice"] == "ryan"
    assert speech["max_new_tokens"] < 300
    assert (design["task_type"], bool(design["instructions"])) == ("VoiceDesign", True)
    assert (clone["task_type"], clone["x_vector_only_mode"]) == ("Base", True)
    assert in_context["ref_text"]
    assert clone["ref_audio"].startswith("data:audio/wav;base64,")
    assert "ref_audio" not in step
    assert transcription["modalities"] == ["text"]
    assert spoken["modalities"] == ["audio"]
    assert spoken["messages"][-1] == {"role": "assistant", "content": "<tts_start>"}


def test_step_audio_without_a_second_stage_is_asked_for_text_alone(engine):
    engine.model, engine.stages = "step-audio-2-mini", 1
    assert [answer.name for answer in ask(Server(engine.url)).answers] == ["transcription"]


def test_the_checkpoint_tells_what_an_unknown_id_is(engine):
    engine.model, engine.root = "our-voice", "/models/qwen3-tts-base-synthetic"
    assert ask(Server(engine.url)).answers[0].name == "voice clone"


def test_an_unknown_model_needs_a_kind(engine, capsys):
    engine.model = "our-voice"
    assert main(["probe", engine.url]) == Exit.USAGE
    assert "--kind" in capsys.readouterr().err
    assert main(["probe", engine.url, "--kind", "speech"]) == Exit.OK


BAD = {
    "silence": np.zeros(3 * RATE, np.float32),
    "too-short": voice(0.1),
    "too-long": voice(20),
    "clipped": np.clip(voice() * 20, -1, 1),
    "dc": voice() + np.float32(0.1),
    "wrong-rate": to_wav(voice(rate=16000), 16000),
    "cut-container": to_wav(voice())[:-2000],
    "not-audio": b'{"error": {"message": "no audio produced"}}',
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_named(engine, name, capsys):
    engine.speech = BAD[name]
    assert main(["probe", engine.url]) == Exit.BAD_ANSWER
    out = capsys.readouterr()
    assert f"BAD   speech: {name}:" in out.out
    assert f"{engine.model} gave a bad answer to its first request: speech: {name}:" in out.err
    assert "mend:" in out.err


@pytest.mark.parametrize(
    ("text", "reason", "name"),
    [("", "stop", "no-transcript"), ("bab", "length", "not-ended"), ("bab<|EOT|>", "stop", "special-token")],
)
def test_a_bad_transcript_is_named(engine, text, reason, name, capsys):
    engine.model, engine.text, engine.finish_reason = "step-audio-2-mini", text, reason
    assert main(["probe", engine.url, "--kind", "transcription"]) == Exit.BAD_ANSWER
    assert f"transcription: {name}:" in capsys.readouterr().err


def test_an_error_is_a_bad_answer(engine, capsys):
    engine.error = 500
    assert main(["probe", engine.url]) == Exit.BAD_ANSWER
    assert "HTTP 500: it broke" in capsys.readouterr().err


def test_a_voice_without_an_end_is_asked_for_once_more(engine):
    engine.speech = BAD["too-long"]
    ask(Server(engine.url))
    assert [body["seed"] for body in engine.bodies] == [0, 1]
    engine.bodies.clear()
    engine.speech = BAD["silence"]
    ask(Server(engine.url))
    assert [body["seed"] for body in engine.bodies] == [0]


def test_nobody_listens(nobody, capsys):
    assert main(["probe", nobody]) == Exit.NOT_READY
    assert "mend:" in capsys.readouterr().err


def test_no_answer_in_time(engine, capsys):
    engine.delay = 3
    assert main(["probe", engine.url, "--timeout", "0.3"]) == Exit.NOT_READY
    assert "no answer in time" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["127.0.0.1:8091", "file:///etc/passwd", "http://", "http://x:port"])
def test_no_address(url, capsys):
    assert main(["probe", url]) == Exit.USAGE
    assert "is not the address of a server" in capsys.readouterr().err


def test_json(engine, nobody, capsys):
    assert main(["probe", engine.url, "--json"]) == Exit.OK
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert report["model"] == engine.model
    assert report["answers"][0]["facts"]["rate"] == 24000
    engine.speech = BAD["silence"]
    assert main(["probe", engine.url, "--json"]) == Exit.BAD_ANSWER
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["answers"][0]["failures"] == ["silence"]
    assert main(["probe", nobody, "--json"]) == Exit.NOT_READY
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "not_ready"


def test_a_recording_of_ones_own(engine, tmp_path):
    file = tmp_path / "mine.wav"
    file.write_bytes(to_wav(voice(1.5)))
    assert main(["probe", engine.url, "--kind", "voice-clone", "--audio", str(file)]) == Exit.OK
    assert len(engine.bodies[0]["ref_audio"]) < len(vowels())


def test_the_key_is_read_from_the_environment(engine, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_API_KEY", "secret")
    assert main(["probe", engine.url]) == Exit.OK
    assert engine.keys == {"Bearer secret"}


def test_the_made_recording_is_a_good_one():
    assert judge_speech(vowels(), fmt="wav", text=None).ok
    assert vowels() == vowels()
    assert vowels(pitch=220) != vowels()


def test_wait_ready(engine):
    engine.health = 503
    progress = []

    def on_progress(what, waited):
        progress.append((what, waited))
        engine.health = 200

    report = probe.wait_ready(engine.url, 20, on_progress)
    assert report.ok
    assert [what for what, _ in progress] == ["it to listen", "its first answer"]


def test_wait_ready_gives_up(nobody):
    with pytest.raises(FirstwordError) as caught:
        probe.wait_ready(nobody, 0.2)
    assert caught.value.code == Exit.NOT_READY


def test_wait_ready_stops_when_there_is_nothing_to_wait_for(nobody):
    with pytest.raises(FirstwordError) as caught:
        probe.wait_ready(nobody, 600, still_alive=lambda: False)
    assert caught.value.code == Exit.NOT_READY


def test_wait_ready_does_not_wait_for_a_bad_answer_to_mend(engine):
    engine.speech = BAD["silence"]
    with pytest.raises(FirstwordError) as caught:
        probe.wait_ready(engine.url, 600)
    assert caught.value.code == Exit.BAD_ANSWER


@contextlib.contextmanager
def dripping(head=b"Content-Length: 100000\r\n"):
    """A server that answers every request with one byte now and then, for ever."""
    stop = threading.Event()

    def serve(connection):
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
            while not stop.wait(0.05):
                connection.sendall(b" ")

    def accept(server):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        stop.set()


def test_a_server_that_drips_is_given_up(monkeypatch):
    with dripping() as url:
        with pytest.raises(TimedOutError, match=r"answer to /health within 0\.3 s"):
            plain.get(url, "/health", timeout=0.3)
        monkeypatch.setattr("firstword.acceptance.client.PATIENCE", 0.2)
        with Client(url, timeout=5) as client, pytest.raises(TimedOutError, match="has not ended after 1 s"):
            client.models()


def test_an_answer_that_declares_no_length_and_drips_is_not_taken_for_a_whole_one():
    with dripping(head=b"") as url, pytest.raises(TimedOutError, match=r"answer to /health within 0\.3 s"):
        plain.get(url, "/health", timeout=0.3)


@pytest.mark.parametrize("url", ["http://user:secret@127.0.0.1:8091", "http://secret@127.0.0.1"])
def test_a_password_in_the_address_is_refused_and_not_shown(url, capsys):
    assert main(["probe", url]) == Exit.USAGE
    err = capsys.readouterr().err
    assert "FIRSTWORD_API_KEY" in err
    assert "secret" not in err


def test_a_host_that_nobody_knows_is_not_waited_for(capsys):
    assert main(["probe", "http://nobody.invalid"]) == Exit.NOT_READY
    err = capsys.readouterr().err
    assert "no host is called nobody.invalid" in err
    assert "check the host's name" in err
