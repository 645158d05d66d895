"""Qwen3-TTS with many requests at once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hearing import samples

from firstword.acceptance.judge import judge_speech

pytestmark = pytest.mark.engine("qwen3-tts-customvoice-synthetic", "cpu")

WORDS = ("one", "two", "three", "four")
TEXTS = [f"Request number {word} says something of its own." for word in WORDS]
VOICES = ("ryan", "vivian", "serena", "aiden")


def ask(client, index):
    return client.speech(TEXTS[index], fmt="pcm", voice=VOICES[index % 4], seed=index)


def test_eight_at_once_are_not_mixed(client):
    alone = [ask(client, index) for index in range(4)]
    with ThreadPoolExecutor(10) as pool:
        # They draw their own random numbers, and leave the others theirs.
        unseeded = [pool.submit(client.speech, TEXTS[0], fmt="pcm", voice="ryan") for _ in range(2)]
        together = list(pool.map(lambda index: ask(client, index), [*range(4)] * 2))
    for index, answer in enumerate(together[:4]):
        verdict = judge_speech(answer.body, fmt="pcm", text=TEXTS[index])
        assert verdict.ok, f"{index}: {verdict}"
    assert len({answer.body for answer in [*alone, *(answer.result() for answer in unseeded)]}) == 6
    # The same frames; a batch may round matrix products another way, by one 16-bit step.
    for one, other in zip(map(samples, together), map(samples, alone * 2), strict=True):
        assert len(one) == len(other)
        assert np.abs(one - other).max() <= 2 / 2**15
