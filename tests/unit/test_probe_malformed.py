"""``firstword probe`` against servers that answer in another shape, and with arguments that make no sense."""

import json
import struct

import pytest

from fake_engine import FakeEngine
from firstword.acceptance import load
from firstword.cli import main
from firstword.errors import Exit
from sounds import to_wav, voice


@pytest.fixture
def engine():
    with FakeEngine() as engine:
        yield engine


def ended(capsys, code, *words):
    """Probe with and without --json; return what it says."""
    assert main(["probe", *words, "--json"]) == code
    out = capsys.readouterr().out
    assert json.loads(out)["ok"] is False
    assert main(["probe", *words]) == code
    err = capsys.readouterr().err
    assert err.count("\n") == 2
    assert "mend:" in err
    return err


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        "[]",
        "null",
        "7",
        '{"data": null}',
        '{"data": [null]}',
        '{"data": [{}]}',
        '{"data": [{"id": ""}]}',
        '{"data": [{"id": 7}]}',
        "<html>hello</html>",
        '{"a":' * 100_000,
    ],
    ids=range(11),
)
def test_a_list_of_models_that_is_none(engine, capsys, body):
    engine.models = body.encode()
    ended(capsys, Exit.BAD_ANSWER, engine.url)
    # Asked for a model by name, the list is not needed.
    assert main(["probe", engine.url, "--model", engine.model]) == Exit.OK


def test_a_server_without_a_model_is_not_ready(engine, capsys):
    engine.models = b'{"data": []}'
    assert "lists no model" in ended(capsys, Exit.NOT_READY, engine.url)


@pytest.mark.parametrize("voices", [None, 3, [None], [{}], [{"id": 7}], [""]], ids=str)
def test_voices_in_another_shape(engine, capsys, voices):
    engine.voices = voices
    assert "speech: /v1/audio/voices answers in another shape" in ended(capsys, Exit.BAD_ANSWER, engine.url)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"choices": None},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": ["a"]}, "finish_reason": "stop"}]},
        {"choices": [{"message": {"audio": {"data": 7}}, "finish_reason": "stop"}]},
        {"choices": [{"message": {"audio": {"data": "é"}}, "finish_reason": "stop"}]},
    ],
    ids=str,
)
def test_chat_in_another_shape(engine, capsys, answer):
    engine.script = lambda handler, _: handler.send_json(answer)
    words = [engine.url, "--model", "step-audio-2-mini", "--kind", "transcription"]
    assert "transcription: /v1/chat/completions answers in another shape" in ended(capsys, Exit.BAD_ANSWER, *words)


def test_an_answer_that_is_no_json(engine, capsys):
    engine.script = lambda handler, _: handler.send(200, b"{", "application/json")
    ended(capsys, Exit.BAD_ANSWER, engine.url, "--kind", "transcription")


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_metrics_without_a_value(engine, tmp_path, value):
    names = "vllm_omni:num_requests_running", "vllm_omni:requests_success_total", "process_start_time_seconds"
    seen = load.read("".join(f"{name} {value}\n" for name in names))
    assert (seen.requests, seen.successes, seen.started_at) == (0, 0, None)
    engine.requests = engine.successes = engine.started_at = value
    assert main(["probe", engine.url, "--readiness", "--state", str(tmp_path / "state.json")]) == Exit.OK


@pytest.mark.parametrize(("channels", "rate"), [(0, 0), (0, 24000), (1, 0)])
def test_a_wav_of_nothing(engine, capsys, channels, rate):
    wav = bytearray(to_wav(voice()))
    struct.pack_into("<HI", wav, 22, channels, rate)
    engine.speech = bytes(wav)
    assert f"undecodable: its header says {channels} channels at {rate} Hz" in ended(
        capsys, Exit.BAD_ANSWER, engine.url
    )


def test_a_recording_that_cannot_be_read(engine, tmp_path, capsys):
    (tmp_path / "empty").write_bytes(b"")
    for name, words in (("gone.wav", "is missing"), (".", "is a folder"), ("empty", "is empty")):
        err = ended(capsys, Exit.USAGE, engine.url, "--audio", str(tmp_path / name))
        assert words in err
        assert "--audio" in err
    assert engine.bodies == []


@pytest.mark.parametrize("option", ["timeout", "wait", "fresh", "stall"])
@pytest.mark.parametrize("value", ["-1", "nan", "inf"])
def test_seconds_that_are_none(engine, capsys, option, value):
    assert f"--{option}" in ended(capsys, Exit.USAGE, engine.url, f"--{option}", value)


@pytest.mark.parametrize("key", ["geheim\n", "geh\r\neim: x", "geheim\u00e9", "gehe im", "geheim\U0001f600"])
@pytest.mark.parametrize("words", [[], ["--readiness"], ["--wait", "60"]], ids=str)
def test_a_key_that_no_header_carries_is_not_shown(engine, capsys, monkeypatch, tmp_path, key, words):
    monkeypatch.setenv("FIRSTWORD_API_KEY", key)
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))
    err = ended(capsys, Exit.USAGE, engine.url, *words)
    assert "FIRSTWORD_API_KEY" in err
    assert "geh" not in err
    assert engine.asked == []


@pytest.mark.parametrize("url", ["http://a..b", "http://x y", "http://127.0.0.1:9/\x01"])
def test_an_address_that_leads_nowhere(capsys, url):
    ended(capsys, Exit.NOT_READY, url)
