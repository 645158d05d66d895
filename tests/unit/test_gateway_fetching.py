"""Recordings named by their address: from listed hosts at public addresses alone, resolved once, within limits."""

import base64
import time
from http.server import BaseHTTPRequestHandler
from threading import Thread

import anyio
import pytest

from fake_engine import FakeEngine
from firstword.acceptance.recording import vowels
from firstword.gateway.errors import ProblemError
from firstword.gateway.voices import fetching
from firstword.gateway.voices.fetching import Fetching, is_public
from gateway_kit import running
from loopback_server import LoopbackServer

HOST = "voices.example"
PUBLIC = fetching.is_public


@pytest.fixture
def server():
    """A server of recordings, and what it was asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["host"], self.headers.get("authorization")))
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("location", "/voice.wav")
                self.end_headers()
                return
            self.send_response(404 if self.path == "/none" else 200)
            if self.path == "/packed":
                self.send_header("content-encoding", "gzip")
            self.end_headers()
            if self.path == "/slow":
                for _ in range(100):
                    self.wfile.write(b"x")
                    self.wfile.flush()
                    time.sleep(0.1)
            elif self.path == "/endless":
                while True:
                    self.wfile.write(bytes(10_000))
            else:
                self.wfile.write(vowels())

        def log_message(self, *_):
            pass

    server = LoopbackServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_address[1], asked
    server.shutdown()
    server.server_close()


@pytest.fixture
def resolved(monkeypatch):
    """What a name resolves to, each time it is asked for; loopback counts as public, or nothing could be reached."""
    answers, asked = [["127.0.0.1"]], []

    async def resolve(host, port):
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    monkeypatch.setattr(fetching, "resolve", resolve)
    monkeypatch.setattr(fetching, "is_public", lambda address: address == "127.0.0.1" or PUBLIC(address))
    return answers, asked


def get(url, hosts=(HOST,), limit=1_000_000, seconds=5.0):
    return anyio.run(Fetching(hosts, limit, seconds).get, url)


def refused(*args, **options):
    with pytest.raises(ProblemError) as caught:
        get(*args, **options)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "invalid_reference", "ref_audio")
    return caught.value.message


def test_a_recording_comes_from_a_listed_host(server, resolved):
    port, asked = server
    assert get(f"http://Voices.Example:{port}/voice.wav?a=b#c", (f"{HOST}:{port}",)) == vowels()
    assert asked == [("/voice.wav?a=b", f"Voices.Example:{port}", None)]


def test_a_name_is_resolved_once_and_that_address_is_asked(server, resolved):
    port, _ = server
    answers, names = resolved
    answers[:] = [["127.0.0.1"], ["203.0.113.9"]]
    assert get(f"http://{HOST}:{port}/voice.wav", (f"{HOST}:{port}",)) == vowels()
    assert names == [HOST]


@pytest.mark.parametrize(
    "address",
    # Private ranges of both families, cloud metadata, a zone, and private addresses inside public-looking ones.
    [
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fd00::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
        "ff02::1",
    ],
)
def test_a_private_address_is_not_asked_even_beside_a_public_one(server, resolved, address):
    port, asked = server
    resolved[0][:] = [["127.0.0.1", address]]
    message = refused(f"http://{HOST}:{port}/voice.wav", (f"{HOST}:{port}",))
    assert "not a public one" in message
    assert address not in message
    assert asked == []


def test_loopback_is_private_and_the_public_network_is_not():
    assert not is_public("127.0.0.1")
    assert not is_public("127.8.8.8")
    assert not is_public("::ffff:127.0.0.1")
    assert all(map(is_public, ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946")))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "data URL"),
        ("ftp://voices.example/a", "data URL"),
        ("/etc/passwd", "data URL"),
        ("", "data URL"),
        ("http://", "data URL"),
        ("gopher://voices.example:70/x", "data URL"),
        ("http://other.example/a", "not among the hosts"),
        ("http://sub.voices.example/a", "not among the hosts"),
        ("http://voices.example.other.example/a", "not among the hosts"),
        ("http://voices.example:8080/a", "not among the hosts"),
        ("http://127.0.0.1/a", "not among the hosts"),
        ("http://user@voices.example/a", "user's name"),
        ("http://other.example@voices.example/a", "user's name"),
        ("http://voices.example:99999/a", "no address"),
        ("http://[::1/a", "no address"),
    ],
)
def test_what_is_not_on_the_list_is_not_even_resolved(resolved, url, why):
    assert why in refused(url)
    assert resolved[1] == []


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/moved", "status 302"),
        ("/none", "status 404"),
        ("/packed", "compressed"),
        ("/endless", "longer than 1000000 bytes"),
        ("/slow", "within 0.5 s"),
    ],
)
def test_what_does_not_come_whole_is_refused(server, resolved, path, why):
    port, asked = server
    began = time.monotonic()
    assert why in refused(f"http://{HOST}:{port}{path}", (f"{HOST}:{port}",), seconds=0.5 if path == "/slow" else 5)
    assert time.monotonic() - began < 5
    assert [each[0] for each in asked] == [path]


def test_a_resolver_that_fails_is_told(monkeypatch):
    async def resolve(host, port):
        raise OSError("no such name")

    monkeypatch.setattr(fetching, "resolve", resolve)
    assert "voices.example did not send it" in refused("http://voices.example/a")


def test_the_engine_gets_the_recording_and_never_an_address(server, resolved, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path))
    port, _ = server
    body = {"model": "qwen3-tts-base-synthetic", "input": "Hello.", "x_vector_only_mode": True}
    wav = "data:audio/wav;base64," + base64.b64encode(vowels()).decode()
    with FakeEngine(body["model"]) as engine, running(engine.url, reference_hosts=f"{HOST}:{port}") as gateway:
        gateway.wait()
        engine.bodies.clear()
        for reference in (f"http://{HOST}:{port}/voice.wav", wav):
            answer = gateway.http.post("/v1/audio/speech", json=body | {"ref_audio": reference})
            assert answer.status_code == 200, answer.text
        given = [sent["ref_audio"] for sent in engine.bodies]
        assert given[0] == given[1]
        assert given[0].startswith("data:audio/wav;base64,")
        for reference in ("file:///etc/passwd", "http://other.example/a", "data:audio/wav;base64,AAAA", "data:,x"):
            answer = gateway.http.post("/v1/audio/speech", json=body | {"ref_audio": reference})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, "ref_audio")
        many = gateway.http.post("/v1/audio/speech", json=body | {"ref_audio": [wav] * 5})
        assert (many.status_code, many.json()["error"]["param"]) == (400, "ref_audio")
        assert len(engine.bodies) == 2
