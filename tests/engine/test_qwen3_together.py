"""Qwen3-TTS with many requests at once, and after a restart."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hearing import correlation, samples

from firstword.acceptance.judge import judge_speech

pytestmark = pytest.mark.engine("qwen3-tts-customvoice-synthetic", "cpu")

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
TEXTS = [f"Request number {word} says something of its own." for word in WORDS]
VOICES = ("ryan", "vivian", "serena", "aiden")


def ask(client, index):
    return client.speech(TEXTS[index], fmt="pcm", voice=VOICES[index % 4], seed=index)


def test_eight_at_once_are_not_mixed(client):
    alone = [samples(ask(client, index)) for index in range(8)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda index: ask(client, index), range(8)))
    for index, answer in enumerate(together):
        verdict = judge_speech(answer.body, fmt="pcm", text=TEXTS[index])
        assert verdict.ok, f"{index}: {verdict}"
    # The same frames: code2wav's matrix products round differently in a batch, by one 16-bit step at most.
    for sound, expected in zip(map(samples, together), alone, strict=True):
        assert len(sound) == len(expected)
        assert np.abs(sound - expected).max() <= 2 / 2**15
    assert all(abs(correlation(alone[0], other)) < 0.5 for other in alone[1:])


def test_a_restart_gives_the_same_bytes(engine, client):
    before = [ask(client, index).body for index in range(3)]
    engine.restart()
    after = [ask(client, index).body for index in reversed(range(3))]
    assert after[::-1] == before
