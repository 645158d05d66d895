"""`scripts/up` with Docker: what it says and starts, on the stack that runs already."""

import json
import subprocess

import pytest

from firstword import paths
from firstword.errors import Exit


def script(docker, home, *arguments, **settings):
    environment = docker.environment | {"FIRSTWORD_HOME": str(home), "COMPOSE_ENV_FILES": "/dev/null"} | settings
    return subprocess.run(
        [str(paths.root() / "scripts/up"), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def up(docker, stack, home):
    """It finds the stack running, and starts nothing."""
    before = {name: stack.inspect(name)["Id"] for name in ("gateway", "qwen3-tts", "step-audio-2")}
    done = script(docker, home, "--docker", COMPOSE_PROJECT_NAME=stack.name, FIRSTWORD_PORT=str(stack.port))
    assert done.returncode == 0, done.stderr[-3000:]
    assert before == {name: stack.inspect(name)["Id"] for name in before}
    return done


def test_it_says_what_it_does(up):
    assert "with Docker, compose.yaml and compose.cpu.yaml: `docker info` shows no NVIDIA runtime" in up.stderr
    assert "==> docker compose -f compose.yaml -f compose.cpu.yaml up --wait\n" in up.stderr


def test_what_it_prints_can_be_pasted(up, tmp_path):
    text = up.stdout[up.stdout.index("# 1.") : up.stdout.index("Logs:")]
    done = subprocess.run(["bash", "-e"], input=text, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "hello.wav").read_bytes()[:4] == b"RIFF"
    assert json.loads(done.stdout)["text"]


def test_status(docker, stack, up, home):
    told = script(docker, home, "--status", COMPOSE_PROJECT_NAME=stack.name)
    assert told.returncode == 0
    assert told.stdout.split() == ["gateway", "healthy", "qwen3-tts", "healthy", "step-audio-2", "healthy"]


def test_a_mistake_in_the_settings_is_one_clear_line(docker, home):
    done = script(docker, home, "--docker", FIRSTWORD_PORT="no port")
    assert done.returncode == Exit.CONFIG
    assert "the compose files cannot be read" in done.stderr
