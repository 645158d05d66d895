"""Two engines with one model, one of them killed under load: only what it had begun to answer is lost, visibly."""

import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
from engines import Engine
from gateway_process import GatewayProcess

from conftest import SPEECH
from firstword.acceptance.judge import judge_speech

TEXT = "This takes a while to say, and somebody waits for it."
BODY = {"model": SPEECH[0], "input": TEXT, "voice": "ryan", "response_format": "pcm", "stream_format": "audio"}
REQUESTS, AT_A_TIME = 16, 4


class Load:
    """Requests for speech that go on until all have ended, each well or with a clear error."""

    def __init__(self, gateway):
        self._gateway = gateway
        self.begun = threading.Semaphore(0)
        self.whole, self.broken, self.refused = [], [], []

    def ask(self, seed):
        got = bytearray()
        try:
            with self._gateway.http.stream("POST", "/v1/audio/speech", json=BODY | {"seed": seed}) as answer:
                if answer.status_code != 200:
                    answer.read()
                    self.refused.append((answer.status_code, answer.json()["error"]["code"]))
                    return
                for piece in answer.iter_raw():
                    got += piece
                    self.begun.release()
            self.whole.append(bytes(got))
        except httpx.RemoteProtocolError as error:
            self.broken.append(str(error))


def until(true, seconds):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def results(gateway, engine):
    page = gateway.http.get("/metrics").text
    line = rf'^firstword_upstream_results_total\{{.*result="(\w+)",upstream="127.0.0.1:{engine.port}"\}} (\d+)\.0$'
    return {name: int(count) for name, count in re.findall(line, page, re.MULTILINE)}


def test_one_of_two_engines_is_killed_under_load(stack, record_property):
    second = Engine(*SPEECH, stack.speech.run_dir)
    try:
        second.start()
        with GatewayProcess(stack.speech.run_dir, [stack.speech, second], "gateway-of-two") as gateway:
            # The gateway is ready with one of them.
            until(lambda: all(each["state"] == "ready" for each in gateway.ready().json()["upstreams"]), 30)
            load = Load(gateway)
            with ThreadPoolExecutor(AT_A_TIME) as pool:
                asked = [pool.submit(load.ask, seed) for seed in range(REQUESTS)]
                for _ in range(4):
                    assert load.begun.acquire(timeout=60)
                assert results(gateway, second)["begun"] > 0
                os.kill(second.api_server(), signal.SIGKILL)
                until(lambda: gateway.ready().json()["upstreams"][1]["state"] != "ready", 5)
                for each in asked:
                    each.result()
            assert gateway.ready().status_code == 200  # the other stands in
            assert len(load.whole) + len(load.broken) + len(load.refused) == REQUESTS
            for body in load.whole:
                assert judge_speech(body, fmt="pcm", text=TEXT, content_type="audio/pcm").ok
            # Lost is what the killed one had begun, and nothing else; before the first sound that is told by a status.
            lost = results(gateway, second)["broke_off"]
            record_property("lost", lost)
            assert len(load.broken) + len(load.refused) == lost
            assert 1 <= lost <= AT_A_TIME
            assert set(load.refused) <= {(502, "upstream_broke")}
            assert all("incomplete chunked read" in cause for cause in load.broken)
            assert results(gateway, stack.speech)["broke_off"] == 0
            assert sum(results(gateway, engine)["begun"] for engine in (stack.speech, second)) == REQUESTS
    finally:
        second.stop()
