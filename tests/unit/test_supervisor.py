"""The supervisor, against scripted children: each way an engine can start, fail, hang and end."""

import json
import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from firstword.engine.fatal import LastWords
from firstword.engine.process import EngineProcess
from firstword.errors import Exit

DRIVER = """
import sys, time, urllib.request
from pathlib import Path
from firstword.engine.output import Output
from firstword.engine.supervisor import Supervisor, Timing
from firstword.errors import Exit, FirstwordError

folder, output = Path(sys.argv[1]), Output()

def first_answer():
    {first_answer}

def still_answers():
    {still_answers}

try:
    code = Supervisor(
        [sys.executable, "-c", (folder / "child.py").read_text(), str(folder)], {{"PATH": "/usr/bin:/bin"}},
        record=folder / "engine.json", about={{"url": "http://x", "model": "m"}},
        alive=lambda: (folder / "alive").exists(), first_answer=first_answer, still_answers=still_answers,
        timing=Timing(start={start}, first_answer=3, check=0.2, stall=1, grace=1),
        say=lambda line: output.out("SAY " + line), show=output.out, port={port},
    ).run()
except FirstwordError as error:
    output.out(" ".join(("CAUSE", error.cause, "MEND", error.mend)))
    code = int(error.code)
output.flush()
sys.exit(code)
"""

TOLD_BY_A_FILE = 'return (folder / "broken").read_text() if (folder / "broken").exists() else None'

LISTENS = """
import sys, time
from pathlib import Path
(Path(sys.argv[1]) / "alive").touch()
"""


class Run:
    def __init__(self, folder: Path, child: str, **driver: object) -> None:
        self.folder = folder
        (folder / "child.py").write_text(textwrap.dedent(child))
        code = DRIVER.format(**driver)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def until(self, condition, seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "too late"
            time.sleep(0.02)

    def end(self) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=30)
        return self.process.returncode, output

    def record(self) -> dict:
        try:
            return json.loads((self.folder / "engine.json").read_text())
        except (OSError, ValueError):
            return {}


@pytest.fixture
def start(tmp_path):
    runs = []

    def _start(child: str, **driver: object) -> Run:
        defaults = {"first_answer": "return 'good audio'", "still_answers": TOLD_BY_A_FILE, "start": 5, "port": None}
        runs.append(Run(tmp_path, child, **defaults | driver))
        return runs[-1]

    yield _start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_ready_comes_only_after_the_first_answer(start):
    run = start(
        LISTENS + "time.sleep(60)",
        first_answer="\n    while not (folder / 'answer').exists(): time.sleep(0.02)\n    return 'good audio'",
    )
    run.until((run.folder / "alive").exists)
    time.sleep(0.7)
    assert "ready_at" not in run.record()
    (run.folder / "answer").touch()
    run.until(lambda: "ready_at" in run.record())
    run.process.terminate()
    code, output = run.end()
    assert code == 0
    assert "ready after" in output
    assert "good audio" in output


def test_sigterm_ends_the_engine_and_every_process_it_started(start):
    run = start(
        LISTENS
        + """
import subprocess, os
nap = [sys.executable, "-c", "import time; time.sleep(60)"]
children = [subprocess.Popen(nap, start_new_session=own).pid for own in (False, True)]
(Path(sys.argv[1]) / "pids").write_text(" ".join(map(str, [os.getpid(), *children])))
time.sleep(60)
"""
    )
    run.until(lambda: "ready_at" in run.record() and (run.folder / "pids").exists())
    pids = [int(p) for p in (run.folder / "pids").read_text().split()]
    assert all(alive(p) for p in pids)
    run.process.terminate()
    assert run.end()[0] == 0
    assert not any(alive(p) for p in pids)
    assert not (run.folder / "engine.json").exists()


def test_an_engine_that_ignores_sigterm_is_killed_after_the_grace(start):
    run = start("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTENS + "time.sleep(60)")
    run.until(lambda: "ready_at" in run.record())
    pid = run.record()["pid"]
    run.process.terminate()
    assert run.end()[0] == 0
    assert not alive(pid)


def test_a_killed_supervisor_does_not_leave_its_engine(start):
    run = start(LISTENS + "time.sleep(60)")
    run.until(lambda: "ready_at" in run.record())
    pid = run.record()["pid"]
    run.process.kill()
    run.until(lambda: not alive(pid))


@pytest.mark.parametrize(
    ("last_line", "code", "cause"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", 41, "ran out of memory"),
        ("OSError: [Errno 98] Address already in use", 40, "the port is in use"),
        ("ImportError: There is no such class as cosyvoice2.flow.flow.Causal", 43, "cosyvoice2.flow.flow.Causal"),
        ("ModuleNotFoundError: No module named 'librosa'", 43, "module librosa is missing"),
        ("Value error, Model architectures ['StepAudio2X'] failed to be inspected.", 43, "StepAudio2X"),
        ("torch._inductor.exc.InvalidCxxCompiler: No working C++ compiler", 23, "compiler"),
        (
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
            42,
            "a stage of the engine died",
        ),
        ("OSError: [Errno 28] No space left on device", 50, "the disk is full"),
        ("something nobody has seen before", 42, "ended by itself (exit code 1)"),
    ],
)
def test_last_words_become_a_cause_and_an_exit_code(start, last_line, code, cause):
    vague = "" if code == 42 else "RuntimeError: Engine core initialization failed."
    run = start(f"print({last_line!r})\nprint({vague!r})\nraise SystemExit(1)")
    ended, output = run.end()
    assert ended == code
    assert cause in output.partition("CAUSE")[2]
    assert "MEND" in output


def test_the_specific_line_wins_over_the_vague_ones_around_it(start):
    run = start(
        """
print("ImportError: There is no such class as cosyvoice2.flow.flow.CausalMaskedDiffWithXvec")
print("EngineDeadError")
print("Model architectures ['X'] failed to be inspected")
raise SystemExit(1)
"""
    )
    code, output = run.end()
    assert code == 43
    assert "CausalMaskedDiffWithXvec" in output.partition("CAUSE")[2]


def test_an_engine_killed_by_the_kernel_is_told_as_memory(start):
    run = start("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    code, output = run.end()
    assert code == 41
    assert "SIGKILL" in output.partition("CAUSE")[2]


def test_an_engine_that_never_listens_ends_in_time(start):
    run = start("import time; time.sleep(60)", start=1)
    code, output = run.end()
    assert code == 46
    assert "did not listen" in output


def test_a_bad_first_answer_is_never_ready(start):
    bad = "raise FirstwordError('silence: rms 0.0', mend='look', code=Exit.BAD_ANSWER)"
    run = start(LISTENS + "time.sleep(60)", first_answer=bad)
    code, output = run.end()
    assert code == 61
    assert "silence" in output
    assert "ready after" not in output


def test_an_engine_that_dies_on_its_first_request_tells_its_own_cause(start):
    run = start(
        LISTENS + "time.sleep(1)\nprint('ImportError: There is no such class as a.b.C')\nraise SystemExit(1)",
        first_answer="time.sleep(0.9); raise FirstwordError('connection broken', mend='-', code=Exit.NOT_READY)",
    )
    code, output = run.end()
    assert code == 43
    assert "a.b.C" in output.partition("CAUSE")[2]


def test_an_engine_that_dies_after_its_broken_answer_is_waited_for(start):
    run = start(
        LISTENS
        + """
while not (Path(sys.argv[1]) / "asked").exists():
    time.sleep(0.02)
time.sleep(0.5)
print("ImportError: There is no such class as a.b.C")
raise SystemExit(1)
""",
        first_answer="(folder / 'asked').touch(); raise FirstwordError('broken', mend='-', code=Exit.NOT_READY)",
    )
    code, output = run.end()
    assert code == 43
    assert "a.b.C" in output.partition("CAUSE")[2]


def test_another_server_on_the_engines_port_is_never_asked(start):
    """What answers there is not this engine: a good answer of it would make a dead engine ready."""
    with socket.create_server(("127.0.0.1", 0)) as another:
        run = start(
            LISTENS + "time.sleep(60)",
            first_answer="(folder / 'asked').touch(); return 'the answer of another'",
            still_answers="return 'never asked either'",
            start=1,
            port=another.getsockname()[1],
        )
        code, output = run.end()
    assert code == Exit.START_TIMEOUT
    assert not (run.folder / "asked").exists()
    assert "ready after" not in output


def test_an_engine_on_its_own_port_becomes_ready(start):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = f"import socket; server = socket.create_server(('127.0.0.1', {port}))\n"
    run = start(own + LISTENS + "time.sleep(60)", port=port)
    run.until(lambda: "ready_at" in run.record())
    run.process.terminate()
    assert run.end()[0] == 0


def test_a_first_answer_that_never_comes_ends_in_time(start):
    run = start(LISTENS + "time.sleep(60)", first_answer="time.sleep(60)")
    assert run.end()[0] == 45


def test_an_engine_that_stops_answering_is_ended_with_its_cause(start):
    run = start(LISTENS + "time.sleep(60)")
    run.until(lambda: "ready_at" in run.record())
    pid = run.record()["pid"]
    (run.folder / "broken").write_text("no progress for 9 s")
    code, output = run.end()
    assert code == 45
    assert "no progress for 9 s" in output.partition("CAUSE")[2]
    assert not alive(pid)


def test_a_passing_failure_is_forgiven(start):
    run = start(LISTENS + "time.sleep(60)")
    run.until(lambda: "ready_at" in run.record())
    (run.folder / "broken").write_text("busy")
    time.sleep(0.6)
    (run.folder / "broken").unlink()
    time.sleep(1.2)
    assert run.process.poll() is None
    os.kill(run.process.pid, 2)
    assert run.end()[0] == 0


def test_two_failures_far_apart_are_not_one_long_one(start):
    """Five checks take longer than the stall; between the failed ones the engine answered."""
    run = start(
        LISTENS + "time.sleep(60)",
        still_answers="""
    with (folder / "checks").open("a") as file:
        file.write("x")
    return "busy" if (folder / "checks").stat().st_size in (1, 5) else None""",
    )
    checks = run.folder / "checks"
    run.until(lambda: run.process.poll() is not None or (checks.exists() and checks.stat().st_size >= 6), 30)
    run.process.terminate()
    code, output = run.end()
    assert code == 0
    assert output.count("not answering for") == 2


def test_of_two_causes_as_specific_the_first_one_counts():
    """The second may come of the first: a process that is out of memory breaks others."""
    words = LastWords()
    words.read("torch.OutOfMemoryError: CUDA out of memory.")
    words.read("OSError: [Errno 28] No space left on device")
    assert words.error(1).code == Exit.OUT_OF_MEMORY


def test_a_line_of_any_length_is_read_at_once():
    """An engine logs what a client sent, and waits for its log to be read."""
    words = LastWords()
    words.read("a" * 10**6)
    assert words.best is None
    words.read("Engine core proc x" * 10**5 + " MemoryError")
    assert words.error(1).code == Exit.OUT_OF_MEMORY


def test_what_clients_ask_for_is_no_cause():
    words = LastWords()
    words.read('INFO: 127.0.0.1:4 - "GET /MemoryError HTTP/1.1" 404')
    assert words.error(1).code == Exit.STAGE_DIED
    words.read("MemoryError")
    assert words.error(1).code == Exit.OUT_OF_MEMORY


def test_an_engine_whose_lines_nobody_takes_is_read_on():
    def refuse(line):
        raise BrokenPipeError(line)

    code = "import sys; [print('x' * 1000) for _ in range(1000)]; sys.exit(7)"
    engine = EngineProcess([sys.executable, "-c", code], os.environ, refuse)
    deadline = time.monotonic() + 20
    while engine.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert engine.poll() == 7


def test_a_port_is_the_engines_own_only_when_it_listens_there():
    code = "import socket, sys, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1]); "
    code += "sys.stdout.flush(); time.sleep(30)"
    told = []
    engine = EngineProcess([sys.executable, "-c", code], os.environ, told.append)
    try:
        deadline = time.monotonic() + 20
        while not told and time.monotonic() < deadline:
            time.sleep(0.05)
        assert engine.listens_on(int(told[0]))
        with socket.create_server(("127.0.0.1", 0)) as another:
            assert not engine.listens_on(another.getsockname()[1])
    finally:
        engine.stop(1)
