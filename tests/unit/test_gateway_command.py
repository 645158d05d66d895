"""``firstword gateway`` as a process: how it starts, what it logs, how it ends."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import httpx
import pytest

from fake_engine import FakeEngine
from firstword.errors import Exit

MODEL = "qwen3-tts-customvoice-synthetic"


@pytest.fixture
def engine():
    with FakeEngine(MODEL) as engine:
        yield engine


@pytest.fixture
def start(tmp_path, engine):
    """Return a function that starts a gateway; each is ended at the end of the test."""
    with contextlib.ExitStack() as stack:

        def start(**settings):
            given = {"UPSTREAMS": engine.url, "PORT": "0", "RUN_DIR": str(tmp_path), "READY_INTERVAL": "0.1"} | settings
            clean = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTWORD_")}
            process = subprocess.Popen(
                [sys.executable, "-m", "firstword", "gateway"],
                env=clean | {f"FIRSTWORD_{name}": value for name, value in given.items()},
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        yield start


def listening(process):
    """Return its address once it listens, and the lines before that."""
    lines = []
    for text in process.stderr:
        lines.append(json.loads(text))
        if lines[-1]["event"] == "listening":
            return lines[-1]["address"], lines
    raise AssertionError(f"it ended with {process.wait()}: {lines}")


def refused(process):
    _, stderr = process.communicate(timeout=20)
    return process.returncode, stderr


def test_it_serves_logs_json_alone_and_ends_with_0(start, engine):
    process = start(API_KEYS="sk-one", API_KEY="sk-two")
    url, lines = listening(process)
    assert [line["event"] for line in lines if line["level"] == "warning"] == [
        "FIRSTWORD_API_KEY is no setting of the gateway; did you mean FIRSTWORD_API_KEYS?"
    ]
    assert lines[-1]["keys"] == 1
    with httpx.Client(base_url=url, trust_env=False) as client:
        deadline = time.monotonic() + 20
        while client.get("/ready").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        body = {"model": MODEL, "input": "Nobody reads this.", "response_format": "wav"}
        assert client.post("/v1/audio/speech", json=body).status_code == 401
        answer = client.post("/v1/audio/speech", json=body, headers={"authorization": "Bearer sk-one"})
        assert answer.status_code == 200
    process.send_signal(signal.SIGTERM)
    rest = process.stderr.read()
    assert process.wait(20) == 0
    events = [json.loads(line) for line in rest.splitlines()]
    # What is refused before it is looked at has no route.
    told = [(event["status"], event["route"]) for event in events if event.get("method") == "POST"]
    assert told == [(401, None), (200, "/v1/audio/speech")]
    changes = [(event["state"], event["models"]) for event in events if event["event"] == "upstream"]
    assert changes == [("ready", [MODEL])]
    assert "Nobody" not in rest
    assert "sk-" not in rest


def test_a_stream_in_flight_ends_before_the_process_does(start, engine):
    asked = threading.Event()

    def script(handler, body):
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        handler.wfile.write(b'data: {"type": "speech.audio.delta", "audio": "b25lIQ=="}\n\n')
        handler.wfile.flush()
        asked.set()
        time.sleep(1)
        handler.wfile.write(b'data: {"type": "speech.audio.delta", "audio": "dHdvIQ=="}\n\n')
        handler.wfile.write(b'data: {"type": "speech.audio.done"}\n\n')

    process = start()
    url, _ = listening(process)
    with httpx.Client(base_url=url, trust_env=False) as client:
        while client.get("/ready").status_code != 200:
            time.sleep(0.05)
        engine.script = script
        body = {"model": MODEL, "input": "Hello.", "response_format": "pcm"}
        with client.stream("POST", "/v1/audio/speech", json=body) as answer:
            assert asked.wait(10)
            process.send_signal(signal.SIGTERM)
            assert answer.read() == b"one!two!"
    assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"HOST": "0.0.0.0"}, "published on 0.0.0.0 without a key"),
        ({"UPSTREAMS": "nonsense"}, "FIRSTWORD_UPSTREAMS: nonsense is not an address"),
        ({"API_KEYS_FILE": "/none"}, "FIRSTWORD_API_KEYS_FILE: "),
        ({"RUN_DIR": "/proc/none"}, "/proc/none/gateway-0 cannot be written to"),
    ],
)
def test_it_refuses_to_start(start, settings, cause):
    code, stderr = refused(start(**settings))
    assert code == Exit.CONFIG
    assert stderr.startswith("firstword gateway: ")
    assert cause in stderr
    assert "mend: " in stderr
    assert len(stderr.splitlines()) == 2


def test_a_taken_port_is_one_clear_line(start):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, stderr = refused(start(PORT=str(taken.getsockname()[1])))
    assert code == Exit.PORT_IN_USE
    assert "cannot be listened on (Address already in use)" in stderr


def test_an_idle_connection_outlives_the_clients_patience(start):
    """OpenAI's SDKs use one again that has been idle for nearly 5 s."""
    host = urllib.parse.urlsplit(listening(start())[0]).netloc
    connection = http.client.HTTPConnection(host, timeout=10)
    for pause in (5.5, 0.0):
        connection.request("GET", "/health")
        answer = connection.getresponse()
        assert (answer.status, answer.read() != b"") == (200, True)
        connection.auto_open = False  # no second connection
        time.sleep(pause)


def test_a_probe_that_hangs_does_not_keep_it_from_ending(start, engine):
    engine.delay = 60
    process = start()
    listening(process)
    while "/v1/audio/speech" not in engine.asked:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
