"""The README's way: scripts/up --native, the three requests it prints, pasted as they are, and --stop.

Unmarked, so it runs before any other engine is started.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import pytest

from firstword import paths
from firstword.acceptance.judge import judge_speech, judge_transcript
from firstword.errors import Exit
from firstword.native import up

ROOT = Path(__file__).parents[2]
# Short: a socket's path holds 107 characters.
TEMPORARY = Path(tempfile.mkdtemp(prefix="fw-"))


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def script(*arguments: str) -> subprocess.CompletedProcess:
    environment = {key: value for key, value in os.environ.items() if key != "FIRSTWORD_RUN_DIR"}
    environment["TMPDIR"] = str(TEMPORARY)
    return subprocess.run(
        [str(ROOT / "scripts/up"), "--native", *arguments], env=environment, capture_output=True, text=True, check=False
    )


def ours() -> list[str]:
    """Return the command lines of every process of this home's engines and gateway."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if any(str(paths.home() / name) in words for name in ("engine", "gateway")) and "pytest" not in words:
            found.append(words)
    return found


@pytest.fixture(scope="module")
def stack():
    gateway, qwen, step = free_ports(3)
    ports = ("--port", str(gateway), "--qwen3-tts-port", str(qwen), "--step-audio-2-port", str(step))
    result = script(*ports)
    try:
        assert result.returncode == 0, result.stderr[-3000:]
        yield ports, result
    finally:
        script("--stop")


@pytest.fixture(scope="module")
def pasted(stack, tmp_path_factory):
    """Paste what the user is told to paste; return its folder and the output of the last request."""
    folder = tmp_path_factory.mktemp("pasted")
    _, result = stack
    text = result.stdout[result.stdout.index("# 1.") : result.stdout.index("Logs:")]
    done = subprocess.run(["bash", "-e"], input=text, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_all_is_ready_when_it_returns(stack):
    ports, _ = stack
    status = script("--status", *ports)
    assert status.returncode == 0
    assert [line.split()[-1] for line in status.stdout.splitlines()] == ["ready", "ready", "ready"]
    assert urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/ready").status == 200


def test_the_first_request_makes_a_wav_that_plays(pasted):
    folder, _ = pasted
    verdict = judge_speech((folder / "hello.wav").read_bytes(), fmt="wav", text="Hello, world.")
    assert verdict.ok, str(verdict)


def test_the_second_request_streams_a_wav(pasted):
    folder, _ = pasted
    body = (folder / "streamed.wav").read_bytes()
    verdict = judge_speech(body, fmt="wav", text="Hello, world.", streamed=True)
    assert verdict.ok, str(verdict)


def test_the_third_request_recognises_what_the_first_made(pasted):
    _, output = pasted
    verdict = judge_transcript(json.loads(output)["text"], "stop")
    assert verdict.ok, str(verdict)


def test_up_again_finds_both_running_and_starts_nothing(stack):
    ports, _ = stack
    before = {name: (paths.home() / "run" / name).read_bytes() for name in records(ports)}
    again = script(*ports)
    assert again.returncode == 0
    assert "curl" in again.stdout
    assert before == {name: (paths.home() / "run" / name).read_bytes() for name in records(ports)}


def records(ports: tuple[str, ...]) -> list[str]:
    return [f"started-{port}.json" for port in ports[1::2]]


def test_what_was_said_is_not_in_the_logs(pasted, stack):
    for model in (up.SPEECH, up.RECOGNITION):
        log = (paths.home() / "logs" / f"{model}.log").read_text(errors="replace")
        assert '"POST /v1/' in log
        assert "Hello" not in log


def test_the_configuration_and_its_checksum_are_printed(stack):
    log = (paths.home() / "logs" / f"{up.SPEECH}.log").read_text(errors="replace")
    assert re.search(r"configuration [0-9a-f]{64} \(qwen3-tts/cpu\)", log)
    assert '"max_num_seqs"' in log


def test_the_readme_shows_the_same_first_request(stack):
    ports, result = stack
    readme = (ROOT / "README.md").read_text()
    shown = readme[readme.index("curl -sS") :].partition("```")[0]
    printed = result.stdout[result.stdout.index("curl -sS") :].partition("\n\n")[0]
    assert shown.split() == printed.replace(f":{ports[1]}/", ":8000/").split()


def test_stop_leaves_nothing_running(stack):
    ports, _ = stack
    by_port = dict(zip(ports[1::2], ("gateway", up.SPEECH, up.RECOGNITION), strict=True))
    names = [by_port[port] for port in sorted(by_port)]
    stopped = script("--stop")
    assert stopped.returncode == 0
    assert stopped.stderr.split() == ["stopped", *(f"{name}," for name in names[:-1]), names[-1]]
    assert ours() == []
    # torch keeps a folder for each user, here made with the checkpoints.
    assert [file.name for file in TEMPORARY.iterdir() if not file.name.startswith("torchinductor_")] == []
    shutil.rmtree(TEMPORARY)
    assert [file.name for port in ports[1::2] for file in (paths.home() / "run").glob(f"*-{port}.*")] == []
    assert script("--status").returncode == Exit.NOT_READY
