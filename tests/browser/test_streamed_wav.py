"""A streamed WAV from the gateway, played by a real browser to its end."""

import json
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler

import pytest

from fake_engine import FakeEngine
from gateway_kit import running
from loopback_server import LoopbackServer
from sounds import voice

MODEL = "qwen3-tts-customvoice-synthetic"
SECONDS = 3.0
BODY = {"model": MODEL, "input": "Hello.", "voice": "ryan", "response_format": "wav", "stream_format": "audio"}
PAGE = b"""<audio id="player" src="/sound"></audio>
<script>
const tell = (what) => fetch("/told", {method: "POST", body: JSON.stringify(what)});
player.onended = () => tell({ended: player.currentTime, duration: player.duration});
player.onerror = () => tell({error: player.error.message});
player.play().catch((error) => tell({refused: String(error)}));
</script>"""
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--mute-audio", "--autoplay-policy=no-user-gesture-required")


class Page(LoopbackServer):
    """A page with a player, whose sound is fetched from the gateway as it comes: a player cannot POST."""

    def __init__(self, gateway):
        self.gateway, self.told, self.heard = gateway, None, threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path != "/sound":
            self.head("text/html", content_length=str(len(PAGE)))
            self.wfile.write(PAGE)
            return
        with self.server.gateway.http.stream("POST", "/v1/audio/speech", json=BODY) as answer:
            self.head(answer.headers["content-type"], transfer_encoding="chunked")
            for piece in answer.iter_raw():
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

    def do_POST(self):
        self.server.told = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.head("text/plain", content_length="0")
        self.server.heard.set()

    def head(self, kind, **headers):
        self.send_response(200)
        self.send_header("content-type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()


def test_chromium_plays_it_whole(tmp_path, monkeypatch):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser, "no Chromium is here: apt-get install chromium"
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path / "run"))
    with FakeEngine(MODEL) as engine, running(engine.url) as gateway:
        gateway.wait()
        engine.speech = voice(SECONDS)
        page = Page(gateway)
        threading.Thread(target=page.serve_forever, daemon=True).start()
        command = [browser, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}"]
        command.append(f"http://127.0.0.1:{page.server_address[1]}/")
        with (tmp_path / "browser.log").open("wb") as log:
            chromium = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            assert page.heard.wait(60), (tmp_path / "browser.log").read_text()[-2000:]
        finally:
            chromium.terminate()
            chromium.wait(10)
            page.shutdown()
            page.server_close()
    assert page.told == {"ended": pytest.approx(SECONDS, abs=0.01), "duration": pytest.approx(SECONDS, abs=0.01)}
