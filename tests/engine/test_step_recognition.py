"""Step-Audio-2 listens and writes, on the engine that also speaks and on the one that only listens."""

from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from listening import HIGH, LONG, LOW, heard

from firstword.acceptance.audio import decode
from firstword.acceptance.client import TRANSCRIBE
from firstword.acceptance.errors import ApiError
from firstword.acceptance.judge import judge_transcript
from sounds import encode

SHAPES = ("speech-cpu", "asr-cpu")


@pytest.fixture(
    autouse=True,
    params=[pytest.param(s, marks=pytest.mark.engine("step-audio-2-mini-synthetic", s), id=s) for s in SHAPES],
)
def shape(request):
    return request.param


def test_a_transcript_is_good_and_ends_by_itself(client):
    reply = client.transcribe(LOW, max_tokens=512)
    verdict = judge_transcript(reply.text, reply.finish_reason)
    assert verdict.ok, str(verdict)
    assert reply.audio is None
    # The model stopped, not the limit.
    assert 0 < reply.usage["completion_tokens"] * 4 <= 512


def test_the_recording_makes_the_words_and_an_equal_one_the_same(client):
    texts = {name: client.transcribe(wav).text for name, wav in (("low", LOW), ("high", HIGH), ("long", LONG))}
    assert len(set(texts.values())) == 3
    assert client.transcribe(LOW).text == texts["low"]


def test_streamed_and_plain_are_one_text(client):
    plain = client.transcribe(LOW)
    streamed = client.transcribe(LOW, stream=True)
    assert streamed.text == plain.text
    assert streamed.finish_reason == "stop"
    assert streamed.deltas >= 2


@pytest.mark.parametrize("fmt", ["flac", "mp3", "opus"])
def test_other_containers_are_heard(client, fmt):
    body = encode(decode(LOW).samples, fmt)
    reply = client.transcribe(body, fmt=fmt)
    assert judge_transcript(reply.text, reply.finish_reason).ok
    if fmt == "flac":
        assert reply.text == client.transcribe(LOW).text


def test_the_second_and_the_tenth_request(client):
    texts = [client.transcribe(LONG).text for _ in range(10)]
    assert texts == [texts[0]] * 10


def test_eight_at_once_are_not_mixed(client):
    recordings = [LOW, HIGH, LONG, LOW, HIGH, LONG, HIGH, LOW]
    alone = [client.transcribe(recording).text for recording in recordings]
    with ThreadPoolExecutor(8) as pool:
        together = [reply.text for reply in pool.map(client.transcribe, recordings)]
    assert together == alone


def test_text_answers_text(client):
    reply = client.chat([{"role": "user", "content": "Say something."}], modalities=["text"])
    assert judge_transcript(reply.text, reply.finish_reason).ok


def test_what_is_no_recording_is_refused(client):
    with pytest.raises(ApiError) as caught:
        client.transcribe(b"no recording at all")
    assert caught.value.status == 400
    assert caught.value.well_formed
    assert client.transcribe(LOW).text


def test_openais_own_library(engine):
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0) as library:
        reply = library.chat.completions.create(
            model=engine.model, messages=[heard(LOW, TRANSCRIBE)], modalities=["text"]
        )
        choice = reply.choices[0]
        assert judge_transcript(choice.message.content, choice.finish_reason).ok
        stream = library.chat.completions.create(
            model=engine.model, messages=[heard(LOW, TRANSCRIBE)], modalities=["text"], stream=True
        )
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == choice.message.content
        with pytest.raises(openai.NotFoundError, match="no-such-model"):
            library.chat.completions.create(model="no-such-model", messages=[heard(LOW)])
