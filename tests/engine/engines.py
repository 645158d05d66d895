"""Start, watch and end real engines through the project's own command."""

import json
import os
import signal
import socket
import subprocess
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from firstword import paths
from firstword.acceptance.client import Client
from firstword.engine.config import of_checkpoint

START_SECONDS = 420
STOP_SECONDS = 60


def _four_blocks(settings, bytes_per_token):
    """Leave the first stage four blocks of KV cache for eight requests, so that some give way to others."""
    stage = settings["stages"][0]
    # vLLM's CPU blocks hold 128 tokens, and one of them stands for none.
    stage["kv_cache_memory_bytes"] = 5 * 128 * bytes_per_token
    stage["max_model_len"] = 384
    stage["default_sampling_params"]["max_tokens"] = 300


# Shapes that are not shipped: the one each is made from, and how.
VARIANTS = {"four-blocks": ("cpu", _four_blocks), "four-blocks-speech": ("speech-cpu", _four_blocks)}


class Engine:
    """One model on one shape, behind ``firstword serve`` on a free loopback port."""

    def __init__(self, model, shape, run_dir):
        self.model, self.shape = model, shape
        self.run_dir = run_dir
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = paths.home() / "logs" / f"test-{model}-{shape}.log"
        self.record = run_dir / f"engine-{self.port}.json"
        self._process = None
        self._mark = uuid.uuid4().hex

    @property
    def running(self):
        return self._process is not None and self._process.poll() is None

    def start(self):
        """Return once its supervisor has seen a good answer of each kind."""
        _make_checkpoint(self.model)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"FIRSTWORD_RUN_DIR": str(self.run_dir), "FIRSTWORD_TEST_MARK": self._mark}
        environment["VLLM_OMNI_LOST_CHUNK_SECONDS"] = "5"  # 30 for users
        command = [str(_firstword()), "serve", self.model, *self._config()]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        with self.log.open("ab") as log:
            log.write(f"\n==== {' '.join(command)}\n".encode())
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
            )
        try:
            self._wait()
        except BaseException as error:
            error.add_note(self.tail())
            self.stop()
            raise

    def _config(self):
        if self.shape not in VARIANTS:
            return ["--shape", self.shape]
        shape, change = VARIANTS[self.shape]
        family = "qwen3-tts" if self.model.startswith("qwen3-tts") else "step-audio-2"
        settings = yaml.safe_load((paths.root() / f"configs/engines/{family}/{shape}.yaml").read_text())
        change(settings, of_checkpoint(paths.home() / "checkpoints" / self.model, family).kv_bytes_per_token)
        file = self.run_dir / f"{self.shape}.yaml"
        file.write_text(yaml.safe_dump(settings))
        return ["--deploy-config", str(file)]

    def _wait(self):
        deadline = time.monotonic() + START_SECONDS
        while not self._told().get("ready_at"):
            assert self.running, f"it ended with exit code {self._process.returncode}"
            assert time.monotonic() < deadline, f"not ready after {START_SECONDS} s"
            time.sleep(0.2)

    def _told(self):
        """Return what the supervisor tells of its engine."""
        return json.loads(self.record.read_text()) if self.record.exists() else {}

    def stop(self):
        """End it as a service manager would, and return the exit code; nothing may be left of it."""
        if self._process is None:
            return None
        if self.running:
            self._process.terminate()
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        left = self.processes()
        for pid in left:
            _kill(pid)
        self._process.wait()
        self._process = None
        assert not left, f"left behind by {self.model}: {left}\n{self.tail()}"
        return code

    def wait_for_end(self, seconds):
        """Return the exit code once it has ended by itself."""
        return self._process.wait(seconds)

    def api_server(self):
        """Return the process that listens."""
        return self._told()["pid"]

    def stages(self):
        """Return the processes that are neither the supervisor nor the API server."""
        return [pid for pid in self.processes() if pid not in (self.api_server(), self._process.pid)]

    @contextmanager
    def frozen(self, *stages):
        """Stop every stage, or those named, as a hung kernel or collective would; the API server goes on."""
        stages = stages or self.stages()
        assert stages
        try:
            for pid in stages:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in stages:
                os.kill(pid, signal.SIGCONT)

    def client(self, timeout=120.0):
        return Client(self.url, timeout=timeout, model=self.model)

    def processes(self):
        """Return the ids of all living processes of this engine, its supervisor included."""
        mark = f"FIRSTWORD_TEST_MARK={self._mark}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes() and not _is_zombie(entry):
                    found.append(int(entry.name))
            except OSError:
                continue
        return sorted(found)

    def log_size(self):
        return self.log.stat().st_size

    def log_since(self, offset):
        with self.log.open("rb") as file:
            file.seek(offset)
            return file.read().decode("utf-8", "replace")

    def wait_for_log(self, text, offset, seconds=10):
        """Return the log since ``offset`` once ``text`` stands in it."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.log_since(offset)
            if text in found:
                return found
            assert time.monotonic() < deadline, f"{text!r} is not in the log:\n{found[-2000:]}"
            time.sleep(0.05)

    def tail(self, lines=80):
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log_since(max(0, self.log_size() - 200_000)).splitlines()[-lines:])


class Engines:
    """At most one engine at a time: each takes 2 to 6 GB."""

    def __init__(self, run_dir):
        self._run_dir = run_dir
        self._engine = None
        self._failed = {}

    def serve(self, model, shape):
        engine = self._engine
        if engine is None or (engine.model, engine.shape) != (model, shape):
            self.stop()
            engine = self._engine = Engine(model, shape, self._run_dir)
        if not engine.running:
            # An engine that did not start once is not waited for again by each of its tests.
            if (model, shape) in self._failed:
                pytest.fail(f"{model} on {shape} did not start: {self._failed[model, shape]}", pytrace=False)
            try:
                engine.start()
            except Exception as error:
                self._failed[model, shape] = error
                raise
        return engine

    def stop(self):
        if self._engine is not None:
            engine, self._engine = self._engine, None
            engine.stop()


def _firstword():
    return paths.home() / "engine/bin/firstword"


def _make_checkpoint(model):
    """Make it, unless an equal one is there already."""
    folder = paths.home() / "checkpoints" / model
    subprocess.run([str(_firstword()), "synthetic", model, str(folder)], check=True)


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _is_zombie(entry):
    return (entry / "stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
