"""A stage that dies ends its requests visibly and the whole process soon, with the cause; nothing of it is left."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from firstword.acceptance.errors import ApiError, ClientError
from firstword.errors import Exit

LONG = "This takes a while to say, and somebody waits for every word of it. "
SECONDS = 30  # for the supervisor to be gone
ENGINES = [
    pytest.param(stage, marks=pytest.mark.engine(model, shape, ends=True), id=f"stage {stage} of {model}")
    for model, shape, stage in (
        ("qwen3-tts-customvoice-synthetic", "four-blocks", 0),
        ("step-audio-2-mini-synthetic", "four-blocks-speech", 1),
    )
]


@pytest.mark.parametrize("stage", ENGINES)
def test_a_dead_stage_ends_the_engine_and_is_told(engine, client, stage):
    mark = engine.log_size()
    chunks = client.iter_speech(LONG, sse=True, seed=1)
    with ThreadPoolExecutor(1) as pool:
        plain = pool.submit(client.speech, LONG, seed=2)
        next(chunks)
        os.kill(engine.stages()[-2:][stage], signal.SIGKILL)
        with pytest.raises(ClientError):
            list(chunks)
        with pytest.raises(ClientError) as caught:
            plain.result()
    assert not isinstance(caught.value, ApiError) or caught.value.status >= 500
    assert engine.wait_for_end(SECONDS) == Exit.STAGE_DIED
    assert "died" in engine.log_since(mark)
    assert engine.processes() == []
