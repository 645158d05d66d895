"""Each start of an engine gives the same bytes, whatever the size of its KV cache."""

import pytest

QWEN, STEP = "qwen3-tts-customvoice-synthetic", "step-audio-2-mini-synthetic"
STARTS = [(QWEN, "cpu"), (QWEN, "four-blocks"), (STEP, "speech-cpu"), (STEP, "four-blocks-speech")]


@pytest.mark.parametrize(
    "seeds",
    [pytest.param(range(2), marks=pytest.mark.engine(*start), id=start[1]) for start in STARTS],
)
def test_each_start_gives_the_same_bytes(engine, client, said_before, seeds):
    bodies = [client.speech("It says the same each day.", fmt="pcm", seed=seed).body for seed in seeds]
    assert said_before.setdefault(engine.model, bodies) == bodies
