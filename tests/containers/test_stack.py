"""The whole installation: one command, then the first request on the published address."""

import base64
import time

import pytest
from openai import OpenAI
from stack import RECOGNITION, SPEECH, Stack, until

from firstword.acceptance.judge import judge_speech, judge_transcript

TEXT = "Hello, world. This is the first request."
ENGINES = ("qwen3-tts", "step-audio-2")

# End the process that holds a stage: the largest one that is neither the supervisor's child nor above it.
KILL_STAGE = """
import json, os, pathlib, signal
record = json.loads(pathlib.Path("/run/firstword/engine-8091.json").read_text())
def memory(pid):
    fields = pathlib.Path(f"/proc/{pid}/status").read_text().split("VmRSS:")
    return int(fields[1].split()[0]) if len(fields) > 1 else 0
kept = {1, os.getpid(), record["pid"], record["supervisor"]}
others = [int(entry.name) for entry in pathlib.Path("/proc").glob("[0-9]*") if int(entry.name) not in kept]
largest = max(others, key=memory)
os.kill(largest, signal.SIGKILL)
print(largest)
"""
DEFAULT_ROUTE = "print(any(l.split()[1] == '00000000' for l in open('/proc/net/route').readlines()[1:]))"


@pytest.fixture(scope="module")
def stack(docker, built, figures):
    stack = Stack(docker, "firstword-test")
    try:
        figures["up to ready, s"] = round(stack.up())
        yield stack
    finally:
        stack.down()


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


def test_a_killed_stage_ends_the_container_which_comes_back(stack, client, figures):
    before = stack.inspect("qwen3-tts")
    stack.python("qwen3-tts", KILL_STAGE)
    killed = time.monotonic()
    until(lambda: stack.inspect("qwen3-tts")["RestartCount"] > before["RestartCount"], 60, "it restarts")
    figures["a stage killed to restarted, s"] = round(time.monotonic() - killed)
    until(lambda: stack.status("/ready") == 503, 60, "the gateway says that it is not ready")
    told = stack.logs("qwen3-tts")
    assert "firstword serve: " in told
    assert "mend: " in told
    until(lambda: stack.inspect("qwen3-tts")["State"]["Health"]["Status"] == "healthy", 240, "it is healthy again")
    until(lambda: stack.status("/ready") == 200, 60, "the gateway is ready again")
    figures["a stage killed to ready again, s"] = round(time.monotonic() - killed)
    first_speech(client)


def test_it_stops_in_time_and_down_leaves_nothing(stack):
    assert stack.python("qwen3-tts", DEFAULT_ROUTE) == "True"
    stack.compose("stop", seconds=120)
    for service in (*ENGINES, "gateway"):
        assert stack.inspect(service)["State"]["ExitCode"] == 0, stack.logs(service)
    assert stack.left()
    stack.compose("down", "--volumes")
    assert stack.left() == []
