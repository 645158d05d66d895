"""A KV cache too small for all: requests wait or give way, and still end with what they give alone."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from hearing import samples
from listening import HIGH, LOW

from firstword.acceptance.client import Client

QWEN = pytest.mark.engine("qwen3-tts-customvoice-synthetic", "four-blocks")
STEP = pytest.mark.engine("step-audio-2-mini-synthetic", "four-blocks-speech")
LONG = "This is number {} of those sentences that go on for so long that their frames need more than one block. And on."


def preemptions(client: Client) -> float:
    lines = client.metrics().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("vllm:num_preemptions_total"))


def leave(client, count, ask):
    """Ask ``count`` times and leave each after another number of chunks."""

    def one(index):
        with closing(ask(client, index)) as stream:
            for _ in range(1 + index % 3):
                next(stream, None)

    threads = [threading.Thread(target=one, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    return threads


@QWEN
@pytest.mark.usefixtures("same_processes")
def test_speech_never_gives_way(client):
    """Four blocks hold two such requests to their ends; the talker cannot compute one again, so the others wait."""

    def ask(index):
        return client.speech(LONG.format(index), fmt="pcm", voice="ryan", seed=index, max_new_tokens=200)

    alone = [ask(index) for index in range(4)]
    assert all(len(one.body) > 96 * 1920 * 2 for one in alone), [len(one.body) for one in alone]
    before = preemptions(client)
    # More than the engine runs at once, and four of them, which have no seed, leave in the middle.
    leavers = leave(client, 4, lambda c, i: c.iter_speech(LONG.format(i), voice="vivian", max_new_tokens=200))
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, [*range(4)] * 2))
    for thread in leavers:
        thread.join(60)
    assert not any(thread.is_alive() for thread in leavers)
    assert preemptions(client) == before
    for one, other in zip(map(samples, together), map(samples, alone * 2), strict=True):
        assert len(one) == len(other)
        assert np.abs(one - other).max() <= 2 / 2**15


@STEP
@pytest.mark.usefixtures("same_processes")
def test_recognition_and_speech_that_give_way(client):
    def ask(index):
        if index % 2:
            return client.speech(LONG.format(index), fmt="pcm", seed=index, max_new_tokens=150).body
        recording = (LOW, HIGH)[index // 2 % 2]
        return client.transcribe(recording, max_tokens=200, min_tokens=150, seed=index).text.encode()

    alone = [ask(index) for index in range(4)]
    before = preemptions(client)
    leavers = leave(client, 2, lambda c, i: c.iter_speech(LONG.format(i), max_new_tokens=150))
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(ask, range(4)))
    for thread in leavers:
        thread.join(60)
    assert preemptions(client) > before
    assert together == alone
