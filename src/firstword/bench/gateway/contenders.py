"""What stands between the clients and the upstream: nothing, nginx, this gateway, LiteLLM's proxy."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from firstword import paths
from firstword.bench.gateway.upstream import MODEL
from firstword.native import environments

LITELLM = "litellm[proxy]==1.95.0"
# It imports get_flat_dependant from FastAPI's inside, which later versions do not have.
_LITELLM_NEEDS = "fastapi==0.136.3"
# Its requirements are open-ended; those of that day are installed.
_LITELLM_DAY = "2026-08-04T00:00:00Z"
_START_SECONDS = 180.0


class AbsentError(Exception):
    """A contender is not here; the message says why."""


@dataclass(frozen=True)
class Contender:
    """One that runs.

    Attributes:
        url: Where clients ask.
        version: Which it is.
        process: The root of its processes, or None for none.
    """

    url: str
    version: str
    process: int | None


Starting = Callable[[str, Path], AbstractContextManager[Contender]]


@contextmanager
def upstream() -> Iterator[str]:
    """Run the scripted upstream and give its address."""
    command = [sys.executable, "-m", "firstword.bench.gateway.upstream"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


@contextmanager
def direct(url: str, folder: Path) -> Iterator[Contender]:
    """No proxy."""
    del folder
    yield Contender(url, "", None)


@contextmanager
def nginx(url: str, folder: Path) -> Iterator[Contender]:
    """Nginx as a proxy that does not buffer, with one worker: the gateway is one process too."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        raise AbsentError("there is none; apt-get install nginx-light")
    port = _free_port()
    file = folder / "nginx.conf"
    file.write_text(_NGINX.format(port=port, upstream=url, folder=folder), encoding="utf-8")
    told = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr.strip()
    command = [program, "-p", str(folder), "-c", str(file), "-e", str(folder / "error.log")]
    with _process(command, {}, f"http://127.0.0.1:{port}", "/health", folder / "nginx.log") as process:
        yield Contender(f"http://127.0.0.1:{port}", told.rpartition("/")[2], process)


@contextmanager
def gateway(url: str, folder: Path) -> Iterator[Contender]:
    """This gateway in its own environment."""
    port = _free_port()
    settings = {
        "FIRSTWORD_UPSTREAMS": url,
        "FIRSTWORD_OPTIONAL_UPSTREAMS": "",
        "FIRSTWORD_PORT": str(port),
        "FIRSTWORD_RUN_DIR": str(folder),
        "FIRSTWORD_API_KEYS": "sk-bench",
        "FIRSTWORD_CONCURRENCY": "256",
        "FIRSTWORD_READY_INTERVAL": "1",
    }
    command = [str(environments.gateway() / "bin/firstword"), "gateway"]
    with _process(command, settings, f"http://127.0.0.1:{port}", "/ready", folder / "gateway.log") as process:
        yield Contender(f"http://127.0.0.1:{port}", "", process)


@contextmanager
def litellm(url: str, folder: Path) -> Iterator[Contender]:
    """LiteLLM's proxy, without a database, in an environment of its own."""
    environment = made("bench-litellm", [LITELLM, _LITELLM_NEEDS], _LITELLM_DAY)
    port = _free_port()
    served = {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": "none"}
    config = {
        "model_list": [{"model_name": MODEL, "litellm_params": served}],
        "litellm_settings": {"telemetry": False},
        "general_settings": {"master_key": "sk-bench"},
    }
    file = folder / "litellm.yaml"
    file.write_text(json.dumps(config), encoding="utf-8")
    settings = {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    command = [str(environment / "bin/litellm"), "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
    address = f"http://127.0.0.1:{port}"
    with _process(command, settings, address, "/health/liveliness", folder / "litellm.log") as process:
        yield Contender(address, LITELLM.rpartition("==")[2], process)


ALL: dict[str, Starting] = {"direct": direct, "nginx": nginx, "gateway": gateway, "litellm": litellm}


def made(name: str, requirements: Sequence[str], day: str) -> Path:
    """Return an environment of firstword's home that holds these packages as they were on a day.

    Raises:
        AbsentError: They cannot be installed.
    """
    folder, stamp = paths.home() / name, paths.home() / name / "made-from.json"
    wanted = json.dumps([*requirements, day, sys.version])
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return folder
    uv = str(environments.uv())
    steps = (
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
        [uv, "pip", "install", "--quiet", "--python", str(folder), "--exclude-newer", day, *requirements],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AbsentError(f"it cannot be installed: {done.stderr.strip()[-300:]}")
    stamp.write_text(wanted, encoding="utf-8")
    return folder


@contextmanager
def _process(command: Sequence[str], settings: Mapping[str, str], url: str, path: str, log: Path) -> Iterator[int]:
    """Run a server from when it answers until the block ends."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTWORD_")}
    kept.update(settings)
    with log.open("wb") as output, subprocess.Popen(command, env=kept, stdout=output, stderr=output) as process:
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not _answers(url + path):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AbsentError(f"it did not start: {_last_line(log)}")
                time.sleep(0.1)
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _last_line(log: Path) -> str:
    return (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it said nothing"])[-1]


def _answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


_NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass {upstream};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""
