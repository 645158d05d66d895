"""Qwen3-TTS with built-in voices: every format, every voice, every refusal."""

import numpy as np
import openai
import pytest
from ending import ended, reasons_since
from hearing import correlation, samples

from firstword.acceptance.errors import ApiError
from firstword.acceptance.judge import judge_speech

pytestmark = pytest.mark.engine("qwen3-tts-customvoice-synthetic", "cpu")

TEXT = "The quick brown fox jumps over the lazy dog, and then it rests in the shade."
FORMATS = ("wav", "pcm", "flac", "mp3", "opus")  # those that vLLM-Omni 0.26 offers


@pytest.fixture(scope="module")
def said():
    """What one request gave in each format."""
    return {}


def in_format(client, fmt, said):
    if fmt not in said:
        said[fmt] = client.speech(TEXT, fmt=fmt, voice="ryan", seed=1)
    return said[fmt]


@pytest.mark.parametrize("fmt", FORMATS)
def test_each_format_is_good_speech(client, fmt, said):
    answer = in_format(client, fmt, said)
    verdict = judge_speech(answer.body, fmt=fmt, text=TEXT, content_type=answer.content_type)
    assert verdict.ok, str(verdict)


def test_formats_hold_the_same_sound(client, said):
    sounds = {fmt: in_format(client, fmt, said) for fmt in FORMATS}
    plain = samples(sounds["pcm"])
    assert (samples(sounds["wav"], "wav") == plain).all()
    # libsndfile rounds float samples another way for FLAC: by one 16-bit step at most.
    assert np.abs(samples(sounds["flac"], "flac") - plain).max() <= 1 / 2**15
    assert correlation(samples(sounds["mp3"], "mp3"), plain) > 0.9


def test_a_format_that_is_not_offered_is_refused(client):
    with pytest.raises(ApiError) as caught:
        client.speech(TEXT, fmt="aac")
    assert caught.value.status == 400
    assert caught.value.well_formed


@pytest.mark.parametrize(
    "text",
    ["Hi.", TEXT, "今天天气很好我们一起去公园散步吧。", "Call 555 0199 now, please.", TEXT + " " + TEXT],
    ids=["one word", "a sentence", "chinese", "digits", "two sentences"],
)
def test_length_follows_the_text(client, text):
    answer = client.speech(text, voice="vivian", seed=2)
    verdict = judge_speech(answer.body, fmt="wav", text=text, content_type=answer.content_type)
    assert verdict.ok, str(verdict)


def test_speech_ends_by_the_models_own_token(client):
    before = ended(client)
    tokens = client.speech_stream(TEXT, sse=True, voice="ryan", seed=1).usage["output_tokens"]
    assert reasons_since(client, before) == {"stop": 1}
    assert tokens * 4 <= 2048  # the limit in configs/engines/qwen3-tts/cpu.yaml


def test_each_listed_voice_speaks_and_differs(client):
    voices = client.voices()
    assert len(voices) >= 3
    bodies = set()
    for voice in voices:
        answer = client.speech("Hello there, this is my voice.", voice=voice, seed=3)
        verdict = judge_speech(answer.body, fmt="wav", text="Hello there, this is my voice.")
        assert verdict.ok, f"{voice}: {verdict}"
        bodies.add(answer.body)
    assert len(bodies) == len(voices)


def test_text_and_seed_change_the_sound_and_nothing_else_does(client):
    def say(text, seed):
        return client.speech(text, fmt="pcm", voice="ryan", seed=seed, max_new_tokens=30).body

    one = say(TEXT, 4)
    assert say(TEXT, 4) == one
    assert say(TEXT, 5) != one
    assert say(TEXT.replace("fox", "dog"), 4) != one


def test_the_second_and_the_tenth_request(client):
    text = "And once more the same."
    bodies = [client.speech(text, voice="serena", seed=6, max_new_tokens=10).body for _ in range(10)]
    assert len(set(bodies)) == 1
    assert judge_speech(client.speech(text, voice="serena", seed=6).body, fmt="wav", text=text).ok


@pytest.mark.parametrize(
    ("fields", "status", "word"),
    [
        ({"voice": "nobody"}, 400, "nobody"),
        ({"model": "no-such-model"}, 404, "no-such-model"),
        ({"text": "  "}, 400, "empty"),
        ({"voice": "ryan", "speed": 9.0}, 400, "speed"),
        ({"voice": "ryan", "language": "Klingon"}, 400, "Klingon"),
    ],
    ids=["voice", "model", "no text", "speed", "language"],
)
def test_a_bad_request_is_refused_in_openais_shape(client, fields, status, word):
    with pytest.raises(ApiError) as caught:
        client.speech(fields.pop("text", "Hello."), **fields)
    assert caught.value.status == status
    assert caught.value.well_formed
    assert word in str(caught.value)
    client.health()


def test_openais_own_library(engine):
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0) as library:
        assert [model.id for model in library.models.list()] == [engine.model]
        speech = library.audio.speech.with_streaming_response.create
        with speech(model=engine.model, voice="ryan", input=TEXT, response_format="mp3") as response:
            body = b"".join(response.iter_bytes())
        assert judge_speech(body, fmt="mp3", text=TEXT, content_type=response.headers["content-type"]).ok
        with pytest.raises(openai.BadRequestError, match="nobody"):
            library.audio.speech.create(model=engine.model, voice="nobody", input=TEXT)
