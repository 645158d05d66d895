"""Readiness: one real answer since the start, cheap afterwards, and never fooled by a frozen engine."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fake_engine import FakeEngine
from firstword.acceptance import load, probe, readiness
from firstword.acceptance import state as memory
from firstword.acceptance.asking import Server
from firstword.cli import main
from firstword.errors import Exit, FirstwordError
from sounds import RATE

ALWAYS_OLD = readiness.Limits(fresh=0)


@pytest.fixture
def engine():
    with FakeEngine() as engine:
        yield engine


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "engine.json"
    path.write_text(json.dumps({"pid": 7, "started_at": 1.5, "url": "x", "model": "qwen3-tts-customvoice"}))
    return path


@pytest.fixture
def check(engine, tmp_path, record):
    def check(limits=None, record=record, **server):
        server = Server(engine.url, **{"timeout": 5, **server})
        return readiness.check(server, state=tmp_path / "state.json", record=record, limits=limits)

    return check


def age(tmp_path, seconds):
    """Make everything that is remembered older."""
    path = tmp_path / "state.json"
    document = json.loads(path.read_text())
    for name in ("answered_at", "moved_at", "busy_at"):
        document[name] = document[name] and document[name] - seconds
    path.write_text(json.dumps(document))


def test_first_a_real_answer_then_health_alone(engine, check):
    assert check().asked
    assert "/v1/audio/speech" in engine.asked
    engine.asked.clear()
    assert not check().asked
    assert engine.asked == ["/health"]


def test_without_a_record_the_metrics_tell_the_start(engine, check):
    assert check(record=None).asked
    engine.asked.clear()
    assert not check(record=None).asked
    assert engine.asked == ["/health", "/metrics"]
    engine.started_at += 50
    assert check(record=None).asked


def test_another_start_must_answer_anew(check, record):
    check()
    record.write_text(json.dumps({"pid": 7, "started_at": 2.5}))
    assert check().asked


def test_where_nothing_tells_the_start_every_check_is_real(engine, check):
    engine.has_metrics = False
    assert check(record=None).asked
    assert check(record=None).asked


def test_a_bad_first_answer_is_not_remembered(engine, check, tmp_path):
    good, engine.speech = engine.speech, np.zeros(3 * RATE, np.float32)
    for _ in range(2):
        with pytest.raises(FirstwordError) as caught:
            check()
        assert caught.value.code == Exit.BAD_ANSWER
    assert not (tmp_path / "state.json").exists()
    engine.speech = good
    assert check().asked


@pytest.mark.parametrize("status", [500, 503])
def test_health_decides_even_after_a_good_answer(engine, check, status):
    check()
    engine.health = status
    with pytest.raises(FirstwordError, match=f"/health says {status}") as caught:
        check()
    assert caught.value.code == Exit.NOT_READY


def test_real_again_when_idle_and_old(engine, check, tmp_path):
    check()
    age(tmp_path, 130)
    engine.asked.clear()
    assert check().asked
    assert not check().asked


def test_an_idle_engine_that_answers_badly_now(engine, check, tmp_path):
    check()
    age(tmp_path, 130)
    engine.error = 500
    with pytest.raises(FirstwordError, match="it broke"):
        check()


def test_an_idle_engine_that_does_not_answer_now(engine, check, tmp_path):
    check()
    age(tmp_path, 130)
    engine.delay = 3
    with pytest.raises(FirstwordError, match="no answer in time") as caught:
        check(timeout=0.3)
    assert caught.value.code == Exit.NOT_READY


def test_requests_of_others_that_succeed_count(engine, check, tmp_path):
    check()
    age(tmp_path, 130)
    engine.requests, engine.successes = 3, 5
    engine.asked.clear()
    assert check().why == "others' requests succeed"
    assert "/v1/audio/speech" not in engine.asked
    assert check().why.startswith("answered 0 s ago")


def test_requests_that_succeeded_before_it_fell_idle_count_too(engine, check, tmp_path):
    check()
    age(tmp_path, 130)
    engine.requests, engine.successes = 0, 5
    engine.asked.clear()
    assert check().why == "others' requests succeed"
    assert engine.asked == ["/health", "/metrics"]


def test_busy_is_not_unhealthy(engine, check, tmp_path):
    check()
    age(tmp_path, 130)
    engine.requests = 8
    for step in range(3):
        engine.progress = step
        assert check().why == "busy with 8 requests"
        age(tmp_path, 100)  # far more than a stall, but something has moved each time


def test_a_request_that_has_just_begun_is_no_stall(engine, check, tmp_path):
    check()
    age(tmp_path, 3600)
    engine.requests = 1
    assert check().why == "busy with 1 requests"


def test_frozen_with_requests(engine, check, tmp_path):
    check()
    age(tmp_path, 130)
    engine.requests = 2
    check()
    age(tmp_path, 30)
    check()
    age(tmp_path, 31)
    engine.delay = 2
    frozen = "2 requests run and nothing has moved for 61 s; no answer in time"
    with pytest.raises(FirstwordError, match=frozen) as caught:
        check(timeout=0.3)
    assert caught.value.code == Exit.NOT_READY


def test_it_recovers_when_something_moves(engine, check, tmp_path):
    check()
    age(tmp_path, 130)
    engine.requests = 2
    check()
    age(tmp_path, 61)
    engine.progress = 1
    assert check().why.startswith("busy")


def test_one_stage_that_hangs_behind_another_that_works(engine, check, tmp_path):
    check()
    age(tmp_path, 130)
    engine.requests = 2
    check()
    for step in range(12):
        age(tmp_path, 50)
        engine.progress = step + 1
        if step < 11:
            check()
    engine.delay = 2
    with pytest.raises(FirstwordError, match="none has ended for 600 s; no answer in time"):
        check(timeout=0.3)


def test_a_request_that_is_counted_though_its_client_left(engine, check, tmp_path):
    """vLLM-Omni corrects its count only when another request ends: the engine is asked before it is called frozen."""
    check()
    age(tmp_path, 130)
    engine.requests = 1
    assert check().why == "busy with 1 requests"
    age(tmp_path, 61)
    assert check().asked
    assert not check().asked
    age(tmp_path, 130)
    engine.speech = np.zeros(3 * RATE, np.float32)
    check()
    age(tmp_path, 61)
    with pytest.raises(FirstwordError, match="silence") as caught:
        check()
    assert caught.value.code == Exit.BAD_ANSWER


def test_two_probes_do_not_ask_at_once(engine, check, tmp_path):
    with memory.asking(tmp_path / "state.json") as allowed:
        assert allowed
        with pytest.raises(FirstwordError, match="another probe"):
            check()
    check()
    age(tmp_path, 130)
    with memory.asking(tmp_path / "state.json"):
        assert check().why == "another probe asks just now"


def test_a_probe_that_asks_again_and_again_hides_no_stuck_engine(engine, check, tmp_path):
    """The supervisor asks most of the time then; the container's health check must still fail, and say why."""
    check()
    age(tmp_path, 130)
    engine.delay = 2
    with pytest.raises(FirstwordError, match="no answer in time"):
        check(timeout=0.3)
    with memory.asking(tmp_path / "state.json"), pytest.raises(FirstwordError, match="no answer in time") as caught:
        check()
    assert caught.value.code == Exit.NOT_READY
    engine.delay = 0
    assert check().asked
    age(tmp_path, 130)
    with memory.asking(tmp_path / "state.json"):
        assert check().why == "another probe asks just now"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"engine": 5}', '{"engine": "pid 7 since 1.5"}'])
def test_damaged_state_is_no_state(check, tmp_path, damage):
    (tmp_path / "state.json").write_text(damage)
    assert check().asked


def test_an_answer_in_the_future_is_no_answer(check, tmp_path):
    check()
    age(tmp_path, -4000)
    assert check().asked


def test_the_record_names_model_and_kinds(engine, record, tmp_path):
    record.write_text(json.dumps({"pid": 7, "started_at": 1.5, "model": "our-voice", "kinds": ["transcription"]}))
    state = tmp_path / "state.json"
    assert probe.first_answer(engine.url, state=state, record=record).startswith("transcription: 15 characters")
    assert engine.bodies[0]["model"] == "our-voice"
    assert probe.still_answers(engine.url, state=state, record=record) is None
    engine.health = 503
    assert probe.still_answers(engine.url, state=state, record=record) == f"{engine.url}: /health says 503"


def test_the_first_answer_waits_for_another_probe_and_takes_its_answer(engine, record, tmp_path):
    """A container's health check may come just when the supervisor asks: that must not end the engine."""
    state = tmp_path / "state.json"
    with ThreadPoolExecutor(1) as pool:
        with memory.asking(state):
            first = pool.submit(probe.first_answer, engine.url, state=state, record=record, timeout=20)
            with pytest.raises(TimeoutError):
                first.result(0.5)
            mine = memory.State("pid 7 since 1.5", answered_at=time.time(), answer="speech: heard by the other")
            memory.save(state, mine)
        assert first.result(10) == "speech: heard by the other"
    assert engine.bodies == []
    state.unlink()
    with memory.asking(state), pytest.raises(FirstwordError, match="another probe"):
        probe.first_answer(engine.url, state=state, record=record, timeout=0.3)


def test_the_command(engine, record, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path / "run"))
    port = engine.url.rpartition(":")[2]
    assert main(["probe", engine.url, "--readiness"]) == Exit.OK
    assert (tmp_path / "run" / f"probe-{port}.json").exists()
    assert main(["probe", engine.url, "--readiness", "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["asked"] is False
    record.rename(tmp_path / "run" / f"engine-{port}.json")
    assert main(["probe", engine.url, "--readiness"]) == Exit.OK
    assert len(engine.bodies) == 2


def test_the_cheap_path_imports_nothing_heavy(engine, record, tmp_path):
    """A health check runs every few seconds for months; torch alone would cost it two."""
    code = (
        "import sys; from firstword.cli import main; code = main(sys.argv[1:]);"
        "print(sorted({'torch', 'numpy', 'av', 'httpx', 'vllm', 'openai'} & set(sys.modules))); sys.exit(code)"
    )
    files = ["--state", str(tmp_path / "s.json"), "--record", str(record)]
    command = [sys.executable, "-c", code, "probe", engine.url, "--readiness", *files]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "numpy" in first.stdout
    second = subprocess.run(command, capture_output=True, text=True, check=True)
    assert second.stdout.splitlines()[-1] == "[]"
    assert second.stdout.startswith("ready: answered")


def test_load():
    text = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a",stage="0"} 1.0
vllm:num_requests_waiting{engine="0",model_name="a",stage="0"} 2.0
vllm:generation_tokens_total{model_name="a",stage="0"} 1e3
vllm:generation_tokens_created{model_name="a",stage="0"} 1.79e9
process_start_time_seconds 1.7e9
vllm:broken NaNa
"""
    seen = load.read(text)
    assert (seen.started_at, seen.requests, seen.progress, seen.stages) == (1.7e9, 3, 1000, 1)
    # vLLM-Omni's own gauges win: the stage's keep the value of their last step.
    seen = load.read(text + 'vllm_omni:num_requests_running{model_name="a"} 0.0\n')
    assert seen.requests == 0
    assert load.read("") == load.Load(None, 0, 0.0, 0, 0)


def test_state_is_replaced_whole(tmp_path):
    path = tmp_path / "deep" / "state.json"
    state = memory.State("pid 1 since 2", answered_at=time.time(), answer="x")
    memory.save(path, state)
    assert memory.load(path) == state
    assert os.listdir(path.parent) == ["state.json"]  # noqa: PTH208


def test_a_state_that_cannot_be_written_costs_a_request_not_the_engine(engine, tmp_path, record):
    (tmp_path / "file").touch()
    state = tmp_path / "file" / "state.json"  # below a file: nothing can be written there
    for _ in range(2):
        assert readiness.check(Server(engine.url, timeout=5), state=state, record=record).asked


def test_a_state_nested_too_deep_is_no_state(tmp_path):
    path = tmp_path / "state.json"
    path.write_text("[" * 100_000)
    assert memory.read_json(path) == {}
