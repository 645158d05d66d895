"""Readiness on a real engine: cheap when used, and a frozen stage is found out."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from firstword.acceptance import probe, readiness
from firstword.acceptance.asking import Server
from firstword.acceptance.judge import judge_speech
from firstword.errors import FirstwordError

pytestmark = pytest.mark.engine("qwen3-tts-customvoice-synthetic", "cpu")


@pytest.fixture
def check(engine, tmp_path):
    def check(**limits):
        server = Server(engine.url, model=engine.model, timeout=5)
        return readiness.check(
            server, state=tmp_path / "state.json", record=engine.record, limits=readiness.Limits(**limits)
        )

    return check


def test_wait_ready_asks_for_itself(engine):
    report = probe.wait_ready(engine.url, 60)
    assert [answer.name for answer in report.answers] == ["speech"]
    assert report.ok


def test_the_probe_agrees_with_the_supervisor(engine, tmp_path):
    assert probe.still_answers(engine.url, state=tmp_path / "probe.json", record=engine.record) is None


def test_one_real_answer_then_none(check):
    assert check().asked
    assert not check().asked


def test_idle_is_known_from_the_metrics_and_asked_anew(check):
    check()
    assert check(fresh=0).asked


def test_requests_of_others_count(client, check):
    check()
    client.speech("Somebody else asks for this.", voice="ryan")
    assert check(fresh=0).why == "others' requests succeed"


def test_a_frozen_engine_is_not_ready(engine, client, check):
    with engine.frozen():
        client.health()  # says 200 all the while
        with pytest.raises(FirstwordError, match="no answer in time"):
            check()
    assert check().asked


def test_a_busy_engine_is_ready_and_a_frozen_busy_one_is_not(engine, client, check):
    check()
    text = "This takes a while to say, and somebody waits for every word of it. " * 3
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.speech, text, voice="ryan")
        whys = [check(fresh=0).why]
        while not whys[-1].startswith("busy") and not answer.done():
            whys.append(check(fresh=0).why)
        assert whys[-1].startswith("busy")
        with engine.frozen():
            assert check(fresh=0, stall=3).why.startswith("busy")
            time.sleep(4)
            with pytest.raises(FirstwordError, match="nothing has moved"):
                check(fresh=0, stall=3)
        assert judge_speech(answer.result(60).body, fmt="wav", text=text).ok
    assert check(fresh=0).why == "others' requests succeed"


def test_an_engine_whose_client_has_left_is_idle(engine, client, check):
    """So it is asked at once, not after the time that a frozen engine gets."""
    check()
    mark = engine.log_size()
    with closing(client.iter_speech("Nobody will hear the end of this. " * 3, voice="ryan")) as chunks:
        next(chunks)
    engine.wait_for_log("[Orchestrator] Aborted request(s)", mark)
    assert Server(engine.url).load().requests == 0
    assert check(fresh=0).asked
