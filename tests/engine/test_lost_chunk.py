"""A chunk that is lost between the stages ends its request, and only that."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from leaving import SEGMENTS, segments, until

from firstword.acceptance.errors import ApiError

SECONDS = 30  # for the chunk to be sent
TEXT = "Somebody takes a part of this away before it is heard. " * 3
ENGINES = [
    pytest.param(marks=pytest.mark.engine(model, shape), id=model)
    for model, shape in (("qwen3-tts-customvoice-synthetic", "cpu"), ("step-audio-2-mini-synthetic", "speech-cpu"))
]


def take(kept):
    """Remove the second chunk of the one request that is new in shared memory, as a cleaner would: with its lock."""
    end = time.monotonic() + SECONDS
    while not (found := [name for name in segments() - kept if name.endswith("_0_1") and "lock" not in name]):
        assert time.monotonic() < end, segments() - kept
        time.sleep(0.01)
    for name in found:
        (SEGMENTS / name).unlink()
        (SEGMENTS / f"shm_{name}_lockfile.lock").unlink()


@pytest.mark.parametrize((), ENGINES)
@pytest.mark.usefixtures("same_processes")
def test_a_lost_chunk_ends_its_request(engine, client):
    alone = client.speech("Another is heard.", fmt="pcm", seed=2).body
    kept = segments()
    for status, ask in (
        (500, lambda: client.speech(TEXT, fmt="pcm", seed=1, max_new_tokens=90)),
        (200, lambda: list(client.iter_speech(TEXT, sse=True, seed=1, max_new_tokens=90))),  # and then an error event
    ):
        with ThreadPoolExecutor(2) as pool:
            with engine.frozen(engine.stages()[-1]):  # the second stage, which so reads nothing yet
                lost = pool.submit(ask)
                take(kept)
            other = pool.submit(client.speech, "Another is heard.", fmt="pcm", seed=2)
            with pytest.raises(ApiError, match="was lost: 5 s after the end of stage 0") as caught:
                lost.result()
            assert caught.value.status == status
            assert len(other.result().body) == len(alone)
    assert not until(lambda: segments() - kept)
