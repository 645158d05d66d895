"""Start stock vLLM-Omni, ask it for speech, and write down what a user sees."""

import base64
import contextlib
import io
import itertools
import json
import math
import os
import re
import shutil
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request
import wave
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from firstword import paths
from firstword.engine.environment import CPU
from firstword.engine.process import end_group
from firstword.engine.stock_failures.overlay import Overlay, build
from firstword.engine.stock_failures.rows import Row
from firstword.engine.stock_failures.shown import linked_checkpoint

START_SECONDS = 300
ANSWER_SECONDS = 120
# After an answer the server needs a moment to notice that a stage has died.
AFTERMATH_SECONDS = 20
RATE = 24000
CONFIG = "configs/engines/step-audio-2/speech-cpu.yaml"
# What vLLM puts before a line: the process, the level with date and place; and colours.
_PREFIX = re.compile(
    r"\x1b\[[0-9;]*m"
    r"|^ *\((?:APIServer|EngineCore|Worker|StageEngine)[^)]*\) ?"
    r"|^ *(?:ERROR|WARNING|INFO) \d\d-\d\d \d\d:\d\d:\d\d \[[^]]*\] ?"
)
_RAISED = re.compile(r"^(?:\w+\.)*(?:[A-Z]\w*(?:Error|Exception)|ErrorDuringImport|NoSuchFile): ")
# A row's own folder.
_SCRATCH = re.compile(r"[\w/]*/firstword-\w+/(?:checkpoint|environment)/")
# What something missing raises; what is made of it on the way up has other names.
_CAUSE = re.compile(r"^(?:\w+\.)*(?:ModuleNotFoundError|ImportError|ErrorDuringImport|FileNotFoundError|NoSuchFile): ")


@dataclass(frozen=True)
class Seen:
    """What a user saw.

    Attributes:
        key: The row.
        stage: ``start`` (it ended by itself), ``request`` (a request failed) or ``none``.
        seconds: From the start of the process to the failure, for ``request`` to the server's readiness.
        health: What /health said before the failure: ``refused`` or ``200``.
        answer: Status and message of the request that failed; empty at start.
        after: ``exited``, or what /health said 20 s after it.
        last_words: The last exception in the log, with the lines that continue it.
        true_cause: The first exception in the log that speaks of something missing, else the first one at all.
        lines_above: How many lines above the last exception it stands.
    """

    key: str
    stage: str
    seconds: int
    health: str
    answer: str
    after: str
    last_words: str
    true_cause: str
    lines_above: int

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


def observe(row: Row, *, site_packages: Path, checkpoint: Path, scratch: Path, warm_cache: Path | None) -> Seen:
    """Take a row's thing away, start the server, and return what it shows.

    Args:
        row: What is taken away.
        site_packages: The installed environment.
        checkpoint: A Step-Audio-2 checkpoint.
        scratch: An empty folder.
        warm_cache: A VLLM_CACHE_ROOT that a good start left, for rows that want it.
    """
    overlay = build(scratch / "environment", site_packages, row.change, patched=False)
    model = linked_checkpoint(row, checkpoint, scratch / "checkpoint")
    cache = scratch / "cache"
    if row.warm:
        if warm_cache is None:
            raise ValueError(f"{row.key} needs a warm cache")
        shutil.copytree(warm_cache, cache)
    log = paths.home() / "logs" / f"stock-{row.key}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    with _server(overlay, model, cache, log) as server:
        return server.watch(row)


class _Server:
    def __init__(self, process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log
        self.started = time.monotonic()

    def watch(self, row: Row) -> Seen:
        ready = self._wait(START_SECONDS)
        seconds = round(time.monotonic() - self.started)
        if not ready:
            return self._seen(row, "start", seconds, "refused", "")
        answer = (self._ask_for_text() if row.audio else None) or self._ask_for_speech()
        if answer is None:
            return self._seen(row, "none", seconds, "200", "")
        deadline = time.monotonic() + AFTERMATH_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            time.sleep(0.5)
        return self._seen(row, "request", seconds, "200", answer)

    def _wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if self._health() == "200":
                return True
            time.sleep(0.5)
        return False

    def _health(self) -> str:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=10) as response:  # noqa: S310  # always http
                return str(response.status)
        except urllib.error.HTTPError as error:
            return str(error.code)
        except OSError:
            return "refused"

    def _ask_for_speech(self) -> str | None:
        """Return what is wrong with the answer, None when it is audio."""
        return self._post("/v1/audio/speech", {"input": "Hello there.", "response_format": "wav"})

    def _ask_for_text(self) -> str | None:
        audio = {"data": base64.b64encode(_tone()).decode(), "format": "wav"}
        message = {"role": "user", "content": [{"type": "input_audio", "input_audio": audio}]}
        return self._post("/v1/chat/completions", {"messages": [message], "modalities": ["text"], "max_tokens": 16})

    def _post(self, path: str, body: dict[str, Any]) -> str | None:
        request = urllib.request.Request(  # noqa: S310  # always http
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:  # noqa: S310
                response.read()
                return None
        except urllib.error.HTTPError as error:
            return f"HTTP {error.code} {_message(error.read())}"
        except OSError as error:
            return f"no answer ({type(error).__name__})"

    def _seen(self, row: Row, stage: str, seconds: int, health: str, answer: str) -> Seen:
        after = "exited" if self.process.poll() is not None else self._health()
        words = last_words(self.log.read_text(errors="replace")) if stage != "none" else ("", "", 0)
        return Seen(row.key, stage, seconds, health, answer, after, *words)


def last_words(log: str) -> tuple[str, str, int]:
    """Return the last exception of a log, the true cause, and how many lines above the last exception that stands."""
    lines = [_clean(line) for line in log.splitlines()]
    raised = [at for at, line in enumerate(lines) if _RAISED.search(line)]
    if not raised:
        return (next((line.strip() for line in reversed(lines) if line.strip()), ""), "", 0)
    last = raised[-1]
    first = next((at for at in raised if _CAUSE.search(lines[at])), raised[0])
    # A message goes on in indented lines.
    continued = itertools.takewhile(lambda line: line.startswith("  "), lines[last + 1 :])
    words = " ".join([lines[last], *(line.strip() for line in continued)])
    return (words, lines[first].strip(), last - first)


def _clean(line: str) -> str:
    before = None
    while before != line:
        before, line = line, _PREFIX.sub("", line)
    return _SCRATCH.sub("", line)


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")


@contextlib.contextmanager
def _server(overlay: Overlay, model: Path, cache: Path, log: Path) -> Iterator[_Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # The CPU settings that shorten a start; the fork server is firstword's own, and stock has none.
    settings = {name: value for name, value in CPU.items() if name.startswith(("VLLM", "TORCH", "OMP"))}
    drop = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"}
    environment = {key: value for key, value in os.environ.items() if key not in drop} | settings
    environment |= {"VLLM_CACHE_ROOT": str(cache), "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    config = paths.root() / CONFIG
    command = [str(overlay.python), "-m", "vllm.entrypoints.cli.main", "serve", str(model), "--omni"]
    command += ["--deploy-config", str(config), "--trust-remote-code", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=cache.parent, start_new_session=True
        )
        try:
            yield _Server(process, f"http://127.0.0.1:{port}", log)
        finally:
            end_group(process)


def _tone() -> bytes:
    """Return one second of 220 Hz as a WAV file, at 24 kHz: the server has to resample it."""
    samples = (int(9000 * math.sin(2 * math.pi * 220 * at / RATE)) for at in range(RATE))
    file = io.BytesIO()
    with wave.open(file, "wb") as audio:
        audio.setnchannels(1)
        audio.setsampwidth(2)
        audio.setframerate(RATE)
        audio.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return file.getvalue()
