"""Running without Docker: what `scripts/up` and the environments do when something is in the way."""

import ast
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.native import engines, environments, up
from firstword.native.engines import Engine
from firstword.native.gateway import Gateway

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTWORD_HOME", str(tmp_path))
    return tmp_path


def script(name: str, *args: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(ROOT / "scripts" / name), *args], env=os.environ | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["up", "test", "lock"])
def test_help_teaches(name):
    result = script(name, "--help")
    assert result.returncode == 0
    assert f"scripts/{name}" in result.stdout


def test_a_wrong_python_is_one_clear_line(tmp_path):
    fake = tmp_path / "bin"
    fake.mkdir()
    for tool in ("bash", "dirname", "env"):
        (fake / tool).symlink_to(shutil.which(tool))
    (fake / "python3").write_text("#!/bin/sh\necho Python 3.9.1; exit 1\n")
    (fake / "python3").chmod(0o755)
    result = script("up", PATH=str(fake), HOME=str(tmp_path), FIRSTWORD_PYTHON="")
    assert result.returncode == Exit.WRONG_PYTHON
    assert "Python 3.12 with venv is needed; found: Python 3.9.1" in result.stderr
    assert "mend:" in result.stderr


def test_a_taken_port_is_one_clear_line_and_nothing_is_started(home):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = script("up", "--qwen3-tts-port", str(port), FIRSTWORD_HOME=str(home))
    assert result.returncode == Exit.PORT_IN_USE
    assert f"port {port} is taken" in result.stderr
    assert not list(home.rglob("started-*.json"))


def test_a_full_disk_is_one_clear_line(home, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 99, 1_500_000_000))
    with pytest.raises(FirstwordError, match=r"1.5 GB free in .*, 9.0 GB needed") as caught:
        environments.engine()
    assert caught.value.code == Exit.DISK_FULL


def test_stop_with_nothing_running_is_fine(home):
    result = script("up", "--stop", FIRSTWORD_HOME=str(home))
    assert result.returncode == 0
    assert "nothing was running" in result.stderr


def test_status_with_nothing_running_is_not_ready(home):
    result = script("up", "--status", FIRSTWORD_HOME=str(home))
    assert result.returncode == Exit.NOT_READY
    assert result.stdout.count("not running") == 3


def test_status_tells_why_an_engine_ended(home):
    (home / "run").mkdir()
    (home / "logs").mkdir()
    (home / "run/started-8091.json").write_text(json.dumps({"pid": 999999, "model": "qwen3-tts-customvoice-synthetic"}))
    (home / "logs/qwen3-tts-customvoice-synthetic.log").write_text(
        "much\nfirstword serve: a stage died\n  mend: see above\n"
    )
    result = script("up", "--status", FIRSTWORD_HOME=str(home))
    assert result.returncode == Exit.NOT_READY
    speech, recognition = result.stdout.split("step-audio-2-mini-synthetic")
    assert "not running\n  firstword serve: a stage died\n    mend: see above\n" in speech
    assert "  mend" not in recognition


def lives_on(process: subprocess.Popen) -> bool:
    """Whether a process that may just have been sent a signal does not die of it."""
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        return True
    return False


def test_stop_never_touches_a_process_that_is_not_ours(home):
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        (home / "run").mkdir()
        (home / "run/started-9.json").write_text(json.dumps({"pid": other.pid, "model": "m"}))
        assert engines.stop_all(seconds=1) == []
        assert lives_on(other)
    finally:
        other.kill()


def test_stop_never_kills_a_session_whose_id_was_used_again(home):
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"], start_new_session=True)
    try:
        (home / "run").mkdir()
        (home / "run/started-9.json").write_text(json.dumps({"pid": 999999, "model": "m"}))
        (home / "run/engine-9.json").write_text(json.dumps({"pid": other.pid}))
        (home / "run/started-abc.json").write_text("{}")
        assert engines.stop_all(seconds=1) == []
        assert lives_on(other)
    finally:
        other.kill()


def test_stop_kills_what_a_killed_supervisor_left(home):
    (home / "engine/bin").mkdir(parents=True)
    python = home / "engine/bin/python"
    python.symlink_to(sys.executable)
    left = subprocess.Popen([str(python), "-c", "import time; time.sleep(30)"], start_new_session=True)
    # Popen returns when exec has begun; the new command line stands a moment later.
    while not Path(f"/proc/{left.pid}/cmdline").read_bytes().startswith(str(python).encode()):
        time.sleep(0.01)
    (home / "run").mkdir()
    (home / "run/started-9.json").write_text(json.dumps({"pid": 999999, "model": "m"}))
    (home / "run/engine-9.json").write_text(json.dumps({"pid": left.pid}))
    engines.stop_all(seconds=1, only=[8])
    assert lives_on(left)
    engines.stop_all(seconds=1, only=[9])
    assert left.wait(5) == -9


@pytest.mark.parametrize("ports", [(8000, 8000, 8092), (8000, 8091, 70000), (-1, 8091, 8092)])
def test_ports_that_will_not_do_are_one_clear_line(home, ports):
    names = ("--port", "--qwen3-tts-port", "--step-audio-2-port")
    options = [f"{name}={port}" for name, port in zip(names, ports, strict=True)]
    result = script("up", *options, FIRSTWORD_HOME=str(home))
    assert result.returncode == Exit.USAGE
    assert "will not do" in result.stderr


def test_two_at_once_wait_for_each_other(home, monkeypatch):
    said = []
    monkeypatch.setattr(environments, "say", said.append)
    with environments.locked("up"):
        other = threading.Thread(target=lambda: environments.locked("up", "waiting").__enter__(), daemon=True)
        other.start()
        deadline = time.monotonic() + 5
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
        assert other.is_alive()
    other.join(5)
    assert not other.is_alive()
    assert said == ["waiting"]


def test_a_machine_without_a_home_folder_variable(home):
    environment = {key: value for key, value in os.environ.items() if key != "HOME"} | {"FIRSTWORD_HOME": str(home)}
    command = [str(ROOT / "scripts/up"), "--stop"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_an_engine_that_fails_to_start_tells_its_cause_and_leaves_nothing(home, monkeypatch):
    environment = home / "engine"
    (environment / "bin").mkdir(parents=True)
    program = environment / "bin/firstword"
    program.write_text(
        "#!/bin/sh\necho noise\necho 'firstword serve: disk on fire' >&2\necho '  mend: water' >&2\nexit 50\n"
    )
    program.chmod(0o755)
    for name in ("engine", "gateway"):
        monkeypatch.setattr(environments, name, lambda: environment)
    monkeypatch.setattr(up, "_checkpoint", lambda *_: None)
    monkeypatch.setattr(engines, "require_free", lambda _: None)
    said = []
    monkeypatch.setattr(up, "say", said.append)
    with pytest.raises(FirstwordError) as caught:
        up.run(up_arguments())
    assert caught.value.code == Exit.DISK_FULL
    assert said == ["firstword serve: disk on fire\n  mend: water"]
    assert not list((home / "run").glob("*"))


def test_what_ran_before_outlives_a_start_that_fails(home, monkeypatch):
    before, missing, gateway = Engine(up.SPEECH, 9001), Engine(up.RECOGNITION, 9002), Gateway(port=9003)
    stopped = []
    monkeypatch.setattr(engines, "stop_all", lambda **chosen: stopped.append(chosen))
    monkeypatch.setattr(Engine, "supervisor", lambda engine: 7 if engine == before else None)
    monkeypatch.setattr(engines, "require_free", lambda _: None)
    for name in ("engine", "gateway"):
        monkeypatch.setattr(environments, name, lambda: home)
    monkeypatch.setattr(up, "_checkpoint", lambda *_: None)
    monkeypatch.setattr(engines, "start", lambda *_: subprocess.Popen(["false"]))
    monkeypatch.setattr(up.front, "start", lambda *_: subprocess.Popen(["true"]))
    with pytest.raises(FirstwordError):
        up._start([before, missing], gateway, 60)
    assert stopped == [{"only": [9002, 9003]}]


def up_arguments():
    import argparse

    parser = argparse.ArgumentParser()
    up.add_arguments(parser)
    return parser.parse_args(["--native"])


def test_the_environment_is_made_again_when_what_it_is_made_from_changes(home, monkeypatch):
    made = []
    monkeypatch.setattr(environments, "run", lambda command, **_: made.append(command))
    monkeypatch.setattr(environments, "uv", lambda: Path("uv"))
    (home / "engine/bin").mkdir(parents=True)
    (home / "engine/bin/python").touch()
    monkeypatch.setattr(environments, "_series_digest", lambda: "one")
    environments.engine()
    assert made
    made.clear()
    environments.engine()
    assert made == []
    monkeypatch.setattr(environments, "_series_digest", lambda: "two")
    environments.engine()
    assert any("patches" in command for command in made)


def test_pasted_requests_go_to_one_address():
    text = up.requests(Gateway(port=1))
    assert text.count("curl ") == 3
    assert text.count("http://127.0.0.1:1/v1/audio/speech") == 2
    assert text.count("http://127.0.0.1:1/v1/audio/transcriptions") == 1


def imported(file: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return names


def test_native_and_its_foundations_need_only_the_standard_library():
    """They run before any environment exists."""
    package = ROOT / "src/firstword"
    foundations = ("__init__", "errors", "paths", "documents", "commands", "ending")
    files = [*(package / f"{name}.py" for name in foundations), *(package / "native").glob("*.py")]
    own = ("firstword.errors", "firstword.paths", "firstword.native")
    for file in files:
        for name in imported(file):
            top = name.partition(".")[0]
            assert top in sys.stdlib_module_names or name == "firstword" or name.startswith(own), (file, name)
    assert paths.root() == ROOT


def test_a_checkpoint_is_asked_for_at_every_start(home, monkeypatch):
    asked = []
    monkeypatch.setattr(environments, "run", lambda command: asked.append(command[1:]))
    (home / "checkpoints" / up.SPEECH).mkdir(parents=True)
    (home / "checkpoints" / up.SPEECH / "config.json").write_text("made by older code")
    up._checkpoint(Path("environment"), up.SPEECH)
    assert asked == [["synthetic", up.SPEECH, str(home / "checkpoints" / up.SPEECH)]]


def test_a_python_that_was_named_is_not_passed_over_in_silence(tmp_path):
    result = script("up", "--status", FIRSTWORD_PYTHON="/bin/false", FIRSTWORD_HOME=str(tmp_path))
    assert result.returncode == Exit.WRONG_PYTHON
    assert "FIRSTWORD_PYTHON (/bin/false) is no Python 3.12" in result.stderr


def test_a_colon_in_the_path_is_one_clear_line(tmp_path):
    scripts = tmp_path / "a:b" / "scripts"
    scripts.mkdir(parents=True)
    for name in ("up", "native"):
        shutil.copy2(ROOT / "scripts" / name, scripts / name)
    result = subprocess.run([str(scripts / "up"), "--status"], capture_output=True, text=True, check=False)
    assert result.returncode == Exit.ENVIRONMENT
    assert "colon" in result.stderr


def test_status_finds_what_runs_on_other_ports(home, monkeypatch, capsys):
    monkeypatch.setattr(Engine, "supervisor", lambda engine: engine.port if engine.port > 9000 else None)
    (home / "run").mkdir()
    for port, model in ((9001, up.SPEECH), (9002, up.RECOGNITION)):
        (home / f"run/started-{port}.json").write_text(json.dumps({"pid": 1, "model": model}))
        (home / f"run/engine-{port}.json").write_text(json.dumps({"ready_at": 1.0}))
    code = up._tell([Engine(up.SPEECH, 8091), Engine(up.RECOGNITION, 8092)])
    assert capsys.readouterr().out.splitlines() == [
        f"{up.SPEECH}  http://127.0.0.1:9001  ready",
        f"{up.RECOGNITION}  http://127.0.0.1:9002  ready",
    ]
    assert code == Exit.OK


def test_a_command_that_is_interrupted_cleans_up_after_itself(tmp_path, monkeypatch):
    child = (
        "import pathlib, sys, time\nhalf = pathlib.Path(sys.argv[1])\nhalf.touch()\n"
        "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\n"
        "try: time.sleep(30)\nfinally: half.unlink()"
    )
    half = tmp_path / "half-made"
    real, hit = subprocess.Popen.wait, []

    def interrupted(self, timeout=None):
        if not hit:
            hit.append(True)
            while not half.exists():
                time.sleep(0.01)
            time.sleep(0.3)
            raise SystemExit(129)
        return real(self, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(SystemExit):
        environments.run([sys.executable, "-c", child, str(half)])
    assert not half.exists()


def on_path(monkeypatch, folder, **scripts):
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("scripts", "found"),
    [
        ({}, "node and npm missing"),
        ({"node": "echo v22.1.0"}, "npm missing"),
        ({"node": "echo v18.20.4", "npm": "exit 0"}, "found v18.20.4"),
        ({"node": "exit 1", "npm": "exit 0"}, "found none that runs"),
    ],
)
def test_what_is_missing_for_the_javascript_sdk_is_told(home, tmp_path, monkeypatch, scripts, found):
    on_path(monkeypatch, tmp_path, **scripts)
    with pytest.raises(FirstwordError, match=f"Node.js 20 or newer with npm is needed .*; {found}") as caught:
        environments.javascript()
    assert caught.value.code == Exit.ENVIRONMENT


def test_the_javascript_sdk_is_installed_once_and_a_failure_is_no_environment(home, tmp_path, monkeypatch):
    npm = 'echo "$@" >> {0}; test ! -e {0}.broken'.format(tmp_path / "asked")
    on_path(monkeypatch, tmp_path, node="echo v20.0.0", npm=npm)
    (tmp_path / "asked.broken").touch()
    with pytest.raises(FirstwordError, match="npm ci"):
        environments.javascript()
    (tmp_path / "asked.broken").unlink()
    assert environments.javascript() == environments.javascript() == home / "javascript"
    assert (tmp_path / "asked").read_text().splitlines() == [f"ci --prefer-offline --prefix {home / 'javascript'}"] * 2
    assert (home / "javascript/package-lock.json").is_file()
