"""The server that an engine's stages are forked from, with a module that counts its imports in the stages' place."""

import subprocess
import sys
import time
from pathlib import Path

COUNTED = """
import os
with open("imports", "a") as file:
    print(os.getpid(), file=file)
"""
STAGE = """
import os, sys

def stage(word):
    with open("stages", "a") as file:
        print(word, os.environ["SET_LATER"], "counted" in sys.modules, os.getpid(), os.getppid(), file=file)
    if word == "raises":
        raise ValueError(word)
"""
ENGINE = """
import os, sys
from firstword.engine import launch

if __name__ == "__main__":
    launch.start_fork_server("counted")
    os.environ["SET_LATER"] = "yes"
    import stages_module
    context, run = launch.StageContext(), stages_module.stage
    stages = [context.Process(target=run, name=word, kwargs={"word": word}) for word in sys.argv[1:]]
    for stage in stages:
        stage.start()
    print("started", flush=True)
    sys.stdin.read()
    for stage in stages:
        stage.join(10)
    print([stage.exitcode for stage in stages])
"""


def engine(folder: Path, *words: str) -> subprocess.Popen[str]:
    (folder / "counted.py").write_text(COUNTED)
    (folder / "stages_module.py").write_text(STAGE)
    (folder / "engine.py").write_text(ENGINE)
    process = subprocess.Popen(
        [sys.executable, "engine.py", *words], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def stages(folder: Path, count: int) -> list[list[str]]:
    deadline = time.monotonic() + 20
    file = folder / "stages"
    while not file.exists() or len(file.read_text().splitlines()) < count:
        assert time.monotonic() < deadline, "a stage has not started"
        time.sleep(0.02)
    return [line.split() for line in file.read_text().splitlines()]


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def ends(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while not gone(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_stages_have_what_was_imported_once(tmp_path):
    process = engine(tmp_path, "one", "two")
    found = stages(tmp_path, 2)
    forks = {pid for pid in children(process.pid) if "engine.py" in Path(f"/proc/{pid}/cmdline").read_text()}
    out, _ = process.communicate()
    assert out == "[0, 0]\n"
    assert (tmp_path / "imports").read_text() == f"{process.pid}\n"
    assert sorted(stage[:3] for stage in found) == [["one", "yes", "True"], ["two", "yes", "True"]]
    server = {stage[4] for stage in found}
    assert len(server) == 1
    assert str(process.pid) not in server
    # Only the server is a fork: Python's tracker of semaphores keeps nothing that was imported.
    assert forks == server
    assert ends(int(server.pop()))


def test_the_server_ends_when_its_engine_is_killed(tmp_path):
    process = engine(tmp_path, "one")
    server = int(stages(tmp_path, 1)[0][4])
    assert not gone(server)
    process.kill()
    process.wait()
    assert ends(server)


def test_a_stage_that_fails_ends_with_1_and_the_others_go_on(tmp_path):
    process = engine(tmp_path, "raises", "one")
    stages(tmp_path, 2)
    out, _ = process.communicate()
    assert out == "[1, 0]\n"
