"""The whole installation: one command, then the first request on the published address."""

import base64
import json
import time

import pytest
from openai import OpenAI
from stack import RECOGNITION, SPEECH

from firstword.acceptance.judge import judge_speech, judge_transcript

TEXT = "Hello, world. This is the first request."
ENGINES = ("qwen3-tts", "step-audio-2")


@pytest.fixture
def client(stack):
    with OpenAI(base_url=f"{stack.url}/v1", api_key="none", timeout=120, max_retries=0) as client:
        yield client


def first_speech(client):
    answer = client.audio.speech.create(model=SPEECH, voice="vivian", input=TEXT, response_format="wav")
    verdict = judge_speech(answer.read(), fmt="wav", text=TEXT)
    assert verdict.ok, verdict
    return answer.read()


def test_both_models_answer_on_the_published_address(client):
    sound = base64.b64encode(first_speech(client)).decode()
    assert {model.id for model in client.models.list()} >= {SPEECH, RECOGNITION}
    heard = client.chat.completions.create(
        model=RECOGNITION,
        modalities=["text"],
        messages=[
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"format": "wav", "data": sound}}]}
        ],
    )
    assert judge_transcript(heard.choices[0].message.content, heard.choices[0].finish_reason).ok


def test_only_the_gateway_is_published_and_only_here(stack):
    ports = stack.inspect("gateway")["NetworkSettings"]["Ports"]
    assert {binding["HostIp"] for bindings in ports.values() for binding in bindings} == {"127.0.0.1"}
    for engine in ENGINES:
        assert not any(stack.inspect(engine)["NetworkSettings"]["Ports"].values())


def test_health_says_why(stack):
    for engine in ENGINES:
        health = stack.inspect(engine)["State"]["Health"]
        assert health["Status"] == "healthy"
        assert health["Log"][-1]["Output"].startswith("ready: ")
    assert '"ready":true' in stack.inspect("gateway")["State"]["Health"]["Log"][-1]["Output"].replace(" ", "")


def smoke(stack, figures, when, *options):
    """Run the smoke image as a user does; it ends with 0 only when every check has passed."""
    started = time.monotonic()
    command = ("smoke", "http://gateway:8000", *options) if options else ("smoke",)
    done = stack.compose("run", "--rm", "--no-TTY", *command, check=False, seconds=600)
    figures[f"smoke, {when}, s"] = round(time.monotonic() - started)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_smoke_has_passed(rehearsal):
    _, _, out = rehearsal
    told = (out / "smoke/smoke.txt").read_text()
    for model in (SPEECH, RECOGNITION):
        assert model in told
    checks = [line for line in told.splitlines() if "by OpenAI's client" in line]
    assert checks
    assert all(line.startswith("ok") for line in checks)
    assert " 0 failed" in told.splitlines()[-1]


def test_the_report_for_a_gpu_host_holds_what_it_promises(rehearsal):
    _, report, out = rehearsal
    assert (report["ok"], report["rehearsal"], report["failure"]) == (True, True, None)
    assert set(report["models"]) == {SPEECH, RECOGNITION} == set(report["figures"])
    for figures in report["figures"].values():
        assert figures["speech: streamed, raw"]["first_audio_seconds"] > 0
        assert figures["speech: second to tenth request"]["real_time_factor"] > 0
    for service in (*ENGINES, "gateway"):
        assert (out / f"logs/{service}.log").stat().st_size
        assert json.loads((out / f"logs/{service}.state.json").read_text())["state"]["Health"]["Status"] == "healthy"
    assert (out / "smoke/smoke.xml").exists()
    assert list((out / "smoke").glob("*/first.wav"))
    assert report["images"]["firstword-engine:cpu"].startswith("sha256:")
