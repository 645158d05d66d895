"""What an engine and its supervisor say holds neither up, whoever reads it."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from firstword.engine.output import ROOM, Output

SUPERVISOR = """
import os, sys
from pathlib import Path
from firstword.engine.output import Output
from firstword.engine.supervisor import Supervisor, Timing
folder, output = Path(sys.argv[1]), Output()
child = "import time\\nwhile True: print('x' * 200, flush=True); time.sleep(0.001)"
code = Supervisor(
    [sys.executable, "-c", child], dict(os.environ), record=folder / "engine.json", about={},
    alive=lambda: True, first_answer=lambda: "good", still_answers=lambda: None, timing=Timing(check=0.1, grace=1),
    say=output.err, show=output.out,
).run()
output.flush(0.2)
sys.exit(code)
"""


def read(file: int) -> bytes:
    os.set_blocking(file, False)
    data = b""
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(file, 1 << 20):
            data += piece
    return data


def test_lines_come_in_order():
    reader, writer = os.pipe()
    output = Output(writer, writer)
    for number in range(100):
        (output.out if number % 2 else output.err)(str(number))
    output.flush()
    assert read(reader).decode().split() == [str(number) for number in range(100)]


def test_a_pipe_that_nobody_reads_takes_no_time_and_what_was_lost_is_told():
    reader, writer = os.pipe()
    output = Output(writer, writer)
    for _ in range(ROOM + 5000):
        output.out("x" * 100)
    output.flush(0.1)
    seen, deadline = b"", time.monotonic() + 20
    while b"lines were not read in time\n" not in seen:
        assert time.monotonic() < deadline
        output.out("again")
        seen += read(reader)


def test_a_reader_that_is_gone_is_no_error():
    reader, writer = os.pipe()
    output = Output(writer, writer)
    os.close(reader)
    output.out("a")
    output.err("b")
    output.flush()
    assert not output._lines.unfinished_tasks


@pytest.mark.parametrize("reader_is_gone", [True, False], ids=["a reader that is gone", "a reader that sleeps"])
def test_whoever_reads_sigterm_ends_all(tmp_path, reader_is_gone):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    run = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path)], stdout=writer, stderr=writer)
    os.close(writer)
    record = tmp_path / "engine.json"
    deadline = time.monotonic() + 20
    while not (record.exists() and b"ready_at" in record.read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child = int(record.read_text().split('"pid": ')[1].split(",")[0].rstrip("}\n"))
    if reader_is_gone:
        os.close(reader)
    time.sleep(0.5)
    run.send_signal(signal.SIGTERM)
    assert run.wait(15) == 0
    assert not record.exists()
    assert not Path(f"/proc/{child}").exists()
