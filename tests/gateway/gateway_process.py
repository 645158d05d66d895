"""``firstword gateway`` as a process of its own environment."""

import json
import os
import signal
import subprocess
import time

import httpx

from firstword import paths
from firstword.acceptance.client import Client
from firstword.native import environments

KEY = "sk-of-the-gateway-tests"


class GatewayProcess:
    """A gateway before these engines, with a key; ``settings`` are FIRSTWORD_*."""

    def __init__(self, run_dir, engines, name="gateway", **settings):
        self.log = paths.home() / "logs" / f"test-{name}.log"
        self._settings = {
            "UPSTREAMS": ",".join(engine.url for engine in engines),
            "PORT": "0",
            "API_KEYS": KEY,
            "RUN_DIR": str(run_dir / name),
            "READY_INTERVAL": "0.5",
            "READY_TIMEOUT": "60",
        } | settings
        self._process = None

    def start(self):
        """Return once it listens."""
        environment = environments.gateway()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTWORD_")}
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(environment / "bin/firstword"), "gateway"],
                env=clean | {f"FIRSTWORD_{name}": value for name, value in self._settings.items()},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + 30
        while not (told := [line for line in self.lines() if line["event"] == "listening"]):
            assert self._process.poll() is None, self.tail()
            assert time.monotonic() < deadline, self.tail()
            time.sleep(0.05)
        self.url = told[0]["address"]
        self.http = httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {KEY}"}, timeout=120, trust_env=False
        )

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """End it as a service manager would; it has to end well."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(60)
        finally:
            process.kill()
        assert code == 0, self.tail()

    def client(self, model, timeout=120.0):
        """Return the acceptance suite's client for one model."""
        return Client(self.url, KEY, timeout, model=model)

    def ready(self):
        return httpx.get(f"{self.url}/ready", trust_env=False)  # needs no key

    def wait(self, status, seconds=90):
        """Return what ``/ready`` tells once it answers ``status``."""
        deadline = time.monotonic() + seconds
        while (answer := self.ready()).status_code != status:
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.1)
        return answer.json()

    def lines(self):
        """Return its log's lines so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]

    def tail(self, lines=40):
        return "\n".join(self.log.read_text().splitlines()[-lines:])
