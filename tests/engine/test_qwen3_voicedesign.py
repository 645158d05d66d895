"""Qwen3-TTS VoiceDesign: the instructions make the voice."""

import pytest
from hearing import samples, snr

from firstword.acceptance.errors import ApiError
from firstword.acceptance.judge import judge_speech

pytestmark = pytest.mark.engine("qwen3-tts-voicedesign-synthetic", "cpu")

TEXT = "The quick brown fox jumps over the lazy dog."
OLD = "A calm, low voice of an older man, speaking slowly."
YOUNG = "A bright, excited voice of a young girl."


def say(client, instructions, text=TEXT, **fields):
    return client.speech(text, fmt="pcm", task_type="VoiceDesign", instructions=instructions, seed=1, **fields)


@pytest.mark.parametrize("instructions", [OLD, YOUNG], ids=["old", "young"])
def test_a_designed_voice_is_good_speech(client, instructions):
    answer = say(client, instructions)
    verdict = judge_speech(answer.body, fmt="pcm", text=TEXT, content_type=answer.content_type)
    assert verdict.ok, str(verdict)


def test_instructions_change_the_sound_and_equal_ones_do_not(client):
    one = say(client, OLD).body
    assert say(client, YOUNG).body != one
    assert say(client, OLD).body == one


def test_streamed_and_plain_are_one_sound(client):
    fields = {"task_type": "VoiceDesign", "instructions": OLD, "seed": 1}
    answer = client.speech_stream(TEXT, **fields)
    assert len(answer.chunks) >= 2
    past = len(answer.chunks[0].data) // 2
    plain = samples(say(client, OLD))
    assert len(samples(answer)) == len(plain)
    assert snr(plain[past:], samples(answer)[past:]) >= 30


def test_a_design_needs_instructions(client):
    with pytest.raises(ApiError, match="instructions") as caught:
        client.speech(TEXT, task_type="VoiceDesign")
    assert caught.value.status == 400
    assert caught.value.well_formed
