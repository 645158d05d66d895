"""Clients that leave at any point leave nothing behind: no chunk, no count, no memory, and the engine as it was."""

import pytest
from leaving import SESSIONS, gauges, leave, leave_often, memory, segments, until
from listening import LOW, heard

from firstword.acceptance.client import TRANSCRIBE

TEXT = "Nobody will hear the end of this, and it is a long way to it, for whoever stays. " * 2
PLAIN = ("/v1/audio/speech", {"input": TEXT})
STREAMED = ("/v1/audio/speech", {"input": TEXT, "stream": True, "stream_format": "sse", "response_format": "pcm"})
RAW = ("/v1/audio/speech", {"input": TEXT, "stream": True, "response_format": "pcm"})
BATCH = ("/v1/audio/speech/batch", {"items": [{"input": TEXT}, {"input": TEXT}]})
SESSION = (SESSIONS, {"input": TEXT})
STREAMED_SESSION = (SESSIONS, {"input": TEXT, "stream_audio": True, "response_format": "pcm"})
RECOGNITION = ("/v1/chat/completions", {"messages": [heard(LOW, TRANSCRIBE)], "modalities": ["text"]})
ANSWER = (
    "/v1/chat/completions",
    {
        "messages": [heard(LOW, "Answer aloud."), {"role": "assistant", "content": "<tts_start>"}],
        **{"modalities": ["audio"], "continue_final_message": True, "add_generation_prompt": False, "seed": 1},
    },
)
STREAMED_ANSWER = (ANSWER[0], ANSWER[1] | {"stream": True})

QWEN = pytest.param(
    [PLAIN, STREAMED, RAW, BATCH, SESSION, STREAMED_SESSION],
    marks=pytest.mark.engine("qwen3-tts-customvoice-synthetic", "cpu"),
    id="qwen3-tts",
)
STEP = pytest.param(
    [RECOGNITION, ANSWER, STREAMED_ANSWER, PLAIN, STREAMED, BATCH, SESSION, STREAMED_SESSION],
    marks=pytest.mark.engine("step-audio-2-mini-synthetic", "speech-cpu"),
    id="step-audio-2",
)
# Bytes that all processes together may take more: allocators keep what was used at once, 130 MB after 250 clients, and
# then hardly more (160 MB after 1,500); on a busy machine 220 MB.
GROWTH = 300_000_000


@pytest.fixture(autouse=True)
def same_processes_and_sound(engine, client):
    """The processes stay, and an equal request gets equal bytes before and after."""

    def said():
        return client.speech("The same as ever.", fmt="pcm", seed=1).body

    before, processes = said(), engine.processes()
    yield
    assert said() == before
    assert engine.processes() == processes


@pytest.mark.parametrize("requests", [QWEN, STEP])
def test_many_who_leave_leave_nothing(engine, client, requests, request):
    kept = segments()  # an engine that was killed, of another run
    leave_often(engine, requests, 24)  # what is allocated once
    assert not any(until(lambda: gauges(client)).values())
    before = memory(engine)
    leave_often(engine, requests, request.config.getoption("--disconnects"))
    assert not any(until(lambda: gauges(client)).values()), gauges(client)
    assert not until(lambda: segments() - kept)
    grown = memory(engine) - before
    print(f"{grown / 1e6:+.1f} MB")
    assert grown < GROWTH


@pytest.mark.parametrize("requests", [QWEN, STEP])
def test_an_engine_whose_client_has_left_counts_nothing(engine, client, requests):
    for path, body in requests:
        leave(engine, path, body, 0.5)
        assert not any(until(lambda: gauges(client), seconds=5).values()), f"{path}: {gauges(client)}"


@pytest.mark.engine("step-audio-2-mini-synthetic", "speech-cpu")
def test_a_text_answer_leaves_nothing_in_shared_memory(client):
    kept = segments()
    client.transcribe(LOW)
    assert not until(lambda: segments() - kept)
