"""Qwen3-TTS streamed: chunks arrive while the rest is still being made, and make the same sound."""

import pytest
from hearing import samples, snr

from firstword.acceptance import load
from firstword.acceptance.judge import judge_speech

pytestmark = pytest.mark.engine("qwen3-tts-customvoice-synthetic", "cpu")

TEXT = "The quick brown fox jumps over the lazy dog, and then it rests in the shade. " * 2
ENDED = "stream=true status=ok"  # vLLM-Omni logs it once the last chunk has left code2wav


@pytest.mark.parametrize("sse", [False, True], ids=["raw", "events"])
@pytest.mark.parametrize("fmt", ["pcm", "wav"])
def test_streamed_speech_is_good(client, fmt, sse):
    answer = client.speech_stream(TEXT, fmt=fmt, sse=sse, voice="ryan", seed=1)
    kind = None if sse else answer.content_type
    verdict = judge_speech(answer.body, fmt=fmt, text=TEXT, content_type=kind, streamed=True)
    assert verdict.ok, str(verdict)
    assert len(answer.chunks) >= 2


@pytest.mark.parametrize("sse", [False, True], ids=["raw", "events"])
def test_the_first_chunk_comes_before_the_last_decode(engine, client, sse):
    before, mark = load.read(client.metrics()), engine.log_size()
    stream = client.iter_speech(TEXT, sse=sse, voice="ryan", seed=1)
    next(stream)
    assert ENDED not in engine.log_since(mark)
    rest = list(stream)
    assert len(rest) >= 1
    line = next(line for line in engine.wait_for_log(ENDED, mark).splitlines() if ENDED in line)
    times = dict(part.split("=") for part in line.split() if "=" in part)
    # By the engine's own clock, sound was there before half of the answer was made.
    assert float(times["first_chunk_ms"]) < float(times["total_ms"]) / 2
    assert load.read(client.metrics()).progress > before.progress


@pytest.mark.parametrize("sse", [False, True], ids=["raw", "events"])
def test_streamed_and_plain_are_one_sound(client, sse):
    plain = samples(client.speech(TEXT, fmt="pcm", voice="ryan", seed=1))
    answer = client.speech_stream(TEXT, fmt="pcm", sse=sse, voice="ryan", seed=1)
    streamed = samples(answer)
    assert len(streamed) == len(plain)
    past = len(answer.chunks[0].data) // 2
    # Measured: equal bytes.
    assert snr(plain[past:], streamed[past:]) >= 30


def test_a_client_that_leaves_takes_nothing_along(client):
    expected = client.speech(TEXT, fmt="pcm", voice="ryan", seed=1).body
    for _ in range(2):
        stream = client.iter_speech(TEXT * 4, voice="vivian", seed=2)
        next(stream)
        stream.close()
        assert client.speech(TEXT, fmt="pcm", voice="ryan", seed=1).body == expected
    assert load.read(client.metrics()).requests == 0
