"""Qwen3-TTS Base: a voice cloned from a recording that comes inside the request."""

import base64

import pytest
from hearing import samples, snr

from firstword.acceptance.errors import ApiError
from firstword.acceptance.judge import judge_speech
from firstword.acceptance.recording import vowels

pytestmark = pytest.mark.engine("qwen3-tts-base-synthetic", "cpu")

TEXT = "The quick brown fox jumps over the lazy dog."


def url(wav):
    return "data:audio/wav;base64," + base64.b64encode(wav).decode()


LOW, HIGH = url(vowels(pitch=110)), url(vowels(pitch=220))
MODES = {"in context": {"ref_text": "Ah, ee, oh."}, "voice alone": {"x_vector_only_mode": True}}


@pytest.fixture(params=MODES.values(), ids=MODES)
def say(client, request):
    def say(recording, **fields):
        fields = {"fmt": "pcm", "task_type": "Base", "seed": 1, "ref_audio": recording, **request.param, **fields}
        return client.speech(TEXT, **fields)

    return say


def test_a_cloned_voice_is_good_speech(say):
    answer = say(LOW)
    verdict = judge_speech(answer.body, fmt="pcm", text=TEXT, content_type=answer.content_type)
    assert verdict.ok, str(verdict)


def test_the_recording_changes_the_sound_and_an_equal_one_does_not(say):
    one = say(LOW).body
    assert say(HIGH).body != one
    assert say(LOW).body == one


def test_the_words_of_the_recording_count(client):
    fields = {"fmt": "pcm", "task_type": "Base", "seed": 1, "ref_audio": LOW}
    one = client.speech(TEXT, ref_text="Ah, ee, oh.", **fields).body
    assert client.speech(TEXT, ref_text="Something else is said here.", **fields).body != one


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_streamed_and_plain_are_one_sound(client, mode):
    fields = {"task_type": "Base", "seed": 1, "ref_audio": LOW, **mode}
    answer = client.speech_stream(TEXT, **fields)
    assert len(answer.chunks) >= 2
    plain = samples(client.speech(TEXT, fmt="pcm", **fields))
    past = len(answer.chunks[0].data) // 2
    assert len(samples(answer)) == len(plain)
    assert snr(plain[past:], samples(answer)[past:]) >= 30


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"task_type": "Base"}, "ref_audio"),
        ({"task_type": "Base", "ref_audio": LOW}, "ref_text"),
        ({"ref_audio": url(vowels(0.5)), "x_vector_only_mode": True}, "too short"),
        ({"ref_audio": url(b"no recording at all"), "x_vector_only_mode": True}, "audio"),
        ({"ref_audio": "http://127.0.0.1:9/voice.wav", "x_vector_only_mode": True}, "domain"),
    ],
    ids=["no recording", "no words", "half a second", "not audio", "an address"],
)
def test_a_bad_reference_is_refused(client, fields, word):
    with pytest.raises(ApiError, match=word) as caught:
        client.speech(TEXT, **fields)
    assert caught.value.status in (400, 422)
    assert caught.value.well_formed
    client.health()
