"""``firstword smoke``: it passes a stack that keeps its promises, and each check fails on one that breaks its own."""

import json
import threading
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest

from fake_engine import FakeEngine
from firstword.acceptance.duration import expected_seconds
from firstword.acceptance.smoke.words import word_error_rate, words
from firstword.cli import main
from firstword.errors import Exit
from sounds import RATE, encode, to_wav, voice

SPEAKS = "qwen3-tts-customvoice-synthetic"
LISTENS = "step-audio-2-mini-synthetic"


def spoken(body, *, ignore=()):
    """Return sound that lasts as the text does, and differs with text, voice and seed."""
    told = [str(body.get(name)) for name in ("input", "voice", "seed") if name not in ignore]
    return voice(
        expected_seconds(body.get("input", "a spoken answer of some words")), seed=zlib.crc32("|".join(told).encode())
    )


class Stack(FakeEngine):
    """A server that keeps every promise, until one is broken for it."""

    def __init__(self, model=SPEAKS):
        super().__init__(model)
        self.careful = True
        self.text = "one two"
        self.speech = spoken
        self.count = 0
        self.inside = 0
        self.lock = threading.Lock()


@pytest.fixture
def stack():
    with Stack() as server:
        yield server


def smoke(server, capsys, *options):
    """Return the exit code and each check's outcome and detail."""
    code = main(["smoke", server.url, "--json", "--timeout", "10", *options])
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] == (code == Exit.OK)
    return code, {result["check"]: (result["outcome"], result["detail"]) for result in told["results"]}


def test_a_stack_that_keeps_its_promises_passes(stack, capsys):
    code, checks = smoke(stack, capsys)
    assert code == Exit.OK
    assert len(checks) == 15
    odd = {name: told for name, told in checks.items() if told[0] != "passed"}
    assert odd == {"speech: heard again": ("not applicable", "made-up weights say no words")}


def test_models_that_are_checked_together_are_all_told(stack, capsys, monkeypatch):
    monkeypatch.setattr("firstword.acceptance.client.Client.models", lambda self: [SPEAKS, f"other-{SPEAKS}"])
    assert main(["smoke", stack.url, "--together", "--json", "--check", "wav"]) == Exit.OK
    told = json.loads(capsys.readouterr().out)["results"]
    assert [result["model"] for result in told] == [SPEAKS, f"other-{SPEAKS}"]


def test_one_that_listens_passes(capsys):
    with Stack(LISTENS) as server:
        server.voices = ["default", "alloy", "echo", "nova"]
        server.speech = lambda body: spoken(body, ignore=("voice",))
        code, checks = smoke(server, capsys)
    assert code == Exit.OK
    assert {f"recognition: {name}" for name in ("transcript", "streamed", "no recording", "by OpenAI's client")} <= set(
        checks
    )
    assert {"spoken answer", "spoken answer: streamed"} <= set(checks)


def silent(server):
    server.speech = lambda body: spoken(body) * 0


def one_voice(server):
    server.speech = lambda body: spoken(body, ignore=("voice",))


def seeds_ignored(server):
    server.speech = lambda body: spoken(body, ignore=("seed",))


def _counted(server, change):
    def speak(body):
        with server.lock:
            server.count += 1
        return change(spoken(body), body, server.count)

    server.speech = speak


def never_twice_the_same(server):
    _counted(server, lambda sound, _, count: sound * (1 - count / 1e4))


def worn_out_after_nine(server):
    _counted(server, lambda sound, _, count: sound[: RATE // 10] if count > 9 else sound)


def mixed_when_together(server):
    def speak(body):
        with server.lock:
            server.inside += 1
            crowd = server.inside
        threading.Event().wait(0.1)
        with server.lock:
            crowd = max(crowd, server.inside)
            server.inside -= 1
        sound = spoken(body)
        return sound[: -RATE // 25] if crowd > 4 else sound

    server.speech = speak


def left_over_after_a_cancel(server):
    def speak(body):
        with server.lock:
            server.count += body.get("seed") == 22
        sound = spoken(body)
        return np.concatenate([sound, sound[:1920]]) if server.count and body.get("seed") == 1 else sound

    server.speech = speak


def short_mp3(server):
    server.encode = lambda sound, fmt: encode(sound[: len(sound) * 3 // 4] if fmt == "mp3" else sound, fmt)


def wav_called_flac(server):
    server.encode = lambda sound, fmt: to_wav(sound) if fmt == "flac" else encode(sound, fmt)


def stream_cut(server):
    server.cut_stream = True


def any_voice(server):
    server.careful = False


BROKEN = {
    silent: {
        *("speech: first request", "speech: wav", "speech: each voice", "speech: streamed, raw"),
        "speech: by OpenAI's client",
    },
    one_voice: {"speech: each voice"},
    any_voice: {"speech: each voice"},
    seeds_ignored: {"speech: same seed, same bytes"},
    never_twice_the_same: {"speech: same seed, same bytes", "speech: cancelled, then again"},
    worn_out_after_nine: {"speech: second to tenth request"},
    mixed_when_together: {"speech: eight at once"},
    left_over_after_a_cancel: {"speech: cancelled, then again"},
    short_mp3: {"speech: mp3"},
    wav_called_flac: {"speech: flac"},
    stream_cut: {"speech: streamed, events"},
}


@pytest.mark.parametrize("breaking", BROKEN, ids=lambda breaking: breaking.__name__)
def test_a_broken_promise_of_speech_is_told(stack, capsys, breaking):
    breaking(stack)
    code, checks = smoke(stack, capsys)
    failed = {name for name, (outcome, _) in checks.items() if outcome == "failed"}
    assert code == Exit.BAD_ANSWER
    assert BROKEN[breaking] <= failed
    if breaking not in (silent, worn_out_after_nine):
        assert failed == BROKEN[breaking]


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"text": ""}, {"recognition: transcript", "recognition: streamed", "recognition: by OpenAI's client"}),
        ({"text": "<audio_12> one"}, {"recognition: streamed"}),
        ({"text": "<|im_end|> one"}, {"recognition: transcript"}),
        ({"text": "other words"}, {"recognition: streamed"}),
        ({"finish_reason": "length"}, {"recognition: transcript", "recognition: streamed"}),
        ({"careful": False}, {"recognition: no recording"}),
        ({"speech": voice() * 0}, {"spoken answer", "spoken answer: streamed"}),
        ({"cut_stream": True}, {"recognition: streamed", "spoken answer: streamed"}),
    ],
)
def test_a_broken_promise_of_listening_is_told(capsys, change, failing):
    with Stack(LISTENS) as server:
        for name, value in change.items():
            setattr(server, name, value)
        code, checks = smoke(server, capsys, "--check", "o")
    failed = {name for name, (outcome, _) in checks.items() if outcome == "failed"}
    assert code == Exit.BAD_ANSWER
    assert failing <= failed


def test_one_voice_that_is_two_is_told(capsys):
    with Stack(LISTENS) as server:
        server.voices = ["default", "alloy"]
        code, checks = smoke(server, capsys, "--check", "voice")
    assert code == Exit.BAD_ANSWER
    assert "another way" in checks["speech: each voice"][1]


def test_what_it_keeps(stack, capsys, tmp_path):
    stack.speech = lambda body: spoken(body) * (0 if body.get("voice") == "vivian" else 1)
    assert main(["smoke", stack.url, "--out", str(tmp_path / "out"), "--check", "i"]) == Exit.BAD_ANSWER
    printed = capsys.readouterr().out
    assert (tmp_path / "out/smoke.txt").read_text() == printed
    assert "FAIL" in printed
    suite = ElementTree.parse(tmp_path / "out/smoke.xml").getroot().find("testsuite")
    failures = suite.findall("testcase/failure")
    assert int(suite.get("failures")) == len(failures) >= 1
    assert "silence" in failures[0].get("message")
    assert (tmp_path / "out" / SPEAKS / "first.wav").read_bytes().startswith(b"RIFF")
    assert list((tmp_path / "out" / SPEAKS).glob("bad-*"))
    assert not json.loads((tmp_path / "out/smoke.json").read_text())["ok"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--model", "nobody"], Exit.MODEL_UNKNOWN),
        (["--formats", "wav,au"], Exit.USAGE),
        (["--check", "no such check"], Exit.USAGE),
    ],
)
def test_a_wrong_question_is_told(stack, capsys, options, code):
    assert main(["smoke", stack.url, *options]) == code
    assert "mend:" in capsys.readouterr().err


def test_no_server_is_not_ready(capsys):
    assert main(["smoke", "http://127.0.0.1:9"]) == Exit.NOT_READY


def test_a_model_that_nothing_tells_of(stack, capsys):
    stack.model = "something"
    assert main(["smoke", stack.url]) == Exit.USAGE


@pytest.mark.parametrize(
    ("said", "heard", "rate"),
    [
        ("One two, three four.", "one two three four", 0.0),
        ("one two three four", "one too three", 0.5),
        ("one", "one more thing", 2.0),
        ("Don't go.", "dont go", 0.0),
        ("今天天气", "今天 天汽。", 0.25),
        ("one two", "", 1.0),
    ],
)
def test_word_error_rate(said, heard, rate):
    assert word_error_rate(said, heard) == rate


def test_nothing_said_has_no_rate():
    assert words("?!") == []
    with pytest.raises(ValueError, match="nothing"):
        word_error_rate("...", "x")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--audio", "/nonexistent"),
        ("--audio", "/tmp"),
        ("--audio", "/dev/null"),
        ("--out", "/dev/null"),
        ("--out", "/proc/x"),
        ("--timeout", "nan"),
        ("--timeout", "-1"),
        ("--timeout", "inf"),
    ],
)
def test_what_it_is_given_is_judged_before_anything_is_asked(capsys, option, value):
    assert main(["smoke", "http://127.0.0.1:9", f"{option}={value}"]) == Exit.USAGE
    assert capsys.readouterr().err.count("\n") == 2
