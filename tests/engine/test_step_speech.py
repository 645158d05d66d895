"""Step-Audio-2 speaks: plain, streamed, many at once, after a client that left."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from ending import ended, reasons_since
from hearing import samples, snr

from firstword.acceptance import load
from firstword.acceptance.errors import ApiError
from firstword.acceptance.judge import judge_speech

pytestmark = pytest.mark.engine("step-audio-2-mini-synthetic", "speech-cpu")

TEXT = "This is said by a model that also listens."
FORMATS = ("wav", "pcm", "flac", "mp3", "opus")
ENDED = "stream=true status=ok"


@pytest.mark.parametrize("fmt", FORMATS)
def test_each_format_is_good_speech(client, fmt):
    answer = client.speech(TEXT, fmt=fmt, seed=1)
    verdict = judge_speech(answer.body, fmt=fmt, text=TEXT, content_type=answer.content_type)
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize("sse", [False, True], ids=["raw", "events"])
@pytest.mark.parametrize("fmt", ["pcm", "wav"])
def test_streamed_speech_is_good(client, fmt, sse):
    answer = client.speech_stream(TEXT, fmt=fmt, sse=sse, seed=1)
    kind = None if sse else answer.content_type
    verdict = judge_speech(answer.body, fmt=fmt, text=TEXT, content_type=kind, streamed=True)
    assert verdict.ok, str(verdict)
    assert len(answer.chunks) >= 2


def test_speech_ends_by_the_models_own_token(client):
    before = ended(client)
    tokens = client.speech_stream(TEXT, sse=True, seed=1).usage["output_tokens"]
    assert reasons_since(client, before) == {"stop": 1}
    assert tokens * 4 <= 1024  # the limit in configs/engines/step-audio-2/speech-cpu.yaml


@pytest.mark.parametrize("sse", [False, True], ids=["raw", "events"])
def test_the_first_chunk_comes_before_the_last_decode(engine, client, sse):
    mark = engine.log_size()
    stream = client.iter_speech(TEXT, sse=sse, seed=1)
    next(stream)
    assert ENDED not in engine.log_since(mark)
    assert list(stream)
    line = next(line for line in engine.wait_for_log(ENDED, mark).splitlines() if ENDED in line)
    times = dict(part.split("=") for part in line.split() if "=" in part)
    assert float(times["first_chunk_ms"]) < float(times["total_ms"])


@pytest.mark.parametrize("sse", [False, True], ids=["raw", "events"])
def test_streamed_and_plain_are_one_sound(client, sse):
    plain = samples(client.speech(TEXT, fmt="pcm", seed=1))
    answer = client.speech_stream(TEXT, sse=sse, seed=1)
    past = len(answer.chunks[0].data) // 2
    assert len(samples(answer)) == len(plain)
    assert snr(plain[past:], samples(answer)[past:]) >= 30


def test_text_seed_and_instructions_change_the_sound_and_nothing_else_does(client):
    def say(text, **fields):
        return client.speech(text, fmt="pcm", max_new_tokens=60, **fields).body

    one = say(TEXT, seed=1)
    assert say(TEXT, seed=1) == one
    assert say(TEXT, seed=2) != one
    assert say("Something else is said now, as you hear.", seed=1) != one
    assert say(TEXT, seed=1, instructions="Read it like a bedtime story.") != one


def test_the_second_and_the_tenth_request(client):
    bodies = [client.speech("The same again.", seed=6, max_new_tokens=40).body for _ in range(10)]
    assert len(set(bodies)) == 1
    assert judge_speech(client.speech("The same again.", seed=6).body, fmt="wav", text="The same again.").ok


def test_eight_at_once_are_not_mixed(client):
    def ask(number):
        return client.speech(f"Request number {number}.", fmt="pcm", seed=number).body

    alone = [ask(number) for number in range(4)]
    assert len(set(alone)) == 4
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, [*range(4)] * 2))
    assert together == alone * 2


def test_a_client_that_leaves_takes_nothing_along(client):
    """The streaming state once belonged to whoever came next (3,840 samples too many)."""
    plain = client.speech(TEXT, fmt="pcm", seed=1).body
    streamed = client.speech_stream(TEXT, seed=1).body
    for _ in range(2):
        stream = client.iter_speech("Nobody will hear the end of this sentence.", seed=2)
        next(stream)
        stream.close()
        assert client.speech_stream(TEXT, seed=1).body == streamed
        assert client.speech(TEXT, fmt="pcm", seed=1).body == plain
    assert load.read(client.metrics()).requests == 0


@pytest.mark.parametrize(
    ("text", "fields", "status", "word"),
    [
        (TEXT, {"model": "no-such-model"}, 404, "no-such-model"),
        (" ", {}, 400, "empty"),
        (TEXT, {"fmt": "aac"}, 400, "aac"),
    ],
    ids=["model", "no text", "format"],
)
def test_a_bad_request_is_refused_in_openais_shape(client, text, fields, status, word):
    with pytest.raises(ApiError, match=word) as caught:
        client.speech(text, **fields)
    assert caught.value.status == status
    assert caught.value.well_formed
    client.health()


def test_openais_own_library(engine):
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0) as library:
        assert [model.id for model in library.models.list()] == [engine.model]
        speech = library.audio.speech.with_streaming_response.create
        with speech(model=engine.model, voice="default", input=TEXT, response_format="wav") as response:
            body = b"".join(response.iter_bytes())
        assert judge_speech(body, fmt="wav", text=TEXT, content_type=response.headers["content-type"]).ok


@pytest.mark.parametrize(("method", "path", "status"), [("POST", "/v1/nope", 404), ("GET", "/v1/audio/speech", 405)])
def test_what_does_not_exist_is_told_in_openais_shape(engine, method, path, status):
    answer = httpx.request(method, engine.url + path, trust_env=False)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == status
    assert f"{method} {path}" in error["message"]
