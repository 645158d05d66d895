"""Recordings that Step-Audio-2 cannot hear are refused, long ones are heard whole, and no stage ends."""

import numpy as np
import pytest
from listening import HIGH, LOW, heard

from firstword.acceptance.audio import decode
from firstword.acceptance.client import TRANSCRIBE
from firstword.acceptance.errors import ApiError
from firstword.acceptance.judge import judge_transcript
from firstword.acceptance.recording import vowels
from sounds import to_wav, to_wav_float

RATE = 16000
SHAPES = ("speech-cpu", "asr-cpu")

pytestmark = pytest.mark.usefixtures("same_processes")


@pytest.fixture(
    autouse=True,
    params=[pytest.param(s, marks=pytest.mark.engine("step-audio-2-mini-synthetic", s), id=s) for s in SHAPES],
)
def shape(request):
    return request.param


def _with(value):
    samples = decode(LOW).samples.copy()
    samples[len(samples) // 2] = value
    return to_wav_float(samples, RATE)


REFUSED = {
    "a WAV cut to 100 bytes": (LOW[:100], "20.1 ms"),
    "a WAV's header alone": (LOW[:44], "20.1 ms"),
    "half a header": (LOW[:30], "WAV"),
    "nothing": (b"", "missing or empty"),
    "20 ms": (to_wav(np.full(320, 0.1), RATE), "20.1 ms"),
    "a sample that is not a number": (_with(np.nan), "not a number"),
    "an infinite sample": (_with(np.inf), "not a number"),
    "a sample beyond all sound": (_with(3e38), "not a number"),
    "100 Hz": (to_wav(np.full(2000, 0.1), 100), "8000 to 192000 Hz"),
    "768 kHz": (to_wav(np.full(768000, 0.1), 768000), "8000 to 192000 Hz"),
    "longer than the context": (to_wav(np.zeros(151 * 8000), 8000), "150 s"),
    "longer than is decoded": (to_wav(np.zeros(601 * 8000), 8000), "600s"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_heard_is_refused_with_the_limit(client, case):
    recording, limit = REFUSED[case]
    for stream in (False, True):
        with pytest.raises(ApiError, match=limit) as caught:
            client.transcribe(recording, stream=stream)
        assert caught.value.status == 400
        assert caught.value.well_formed
    assert client.transcribe(LOW).text


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000, 192000])
def test_every_usual_rate_is_heard(client, rate):
    tone = 0.2 * np.sin(2 * np.pi * 220 * np.arange(2 * rate) / rate)
    reply = client.transcribe(to_wav(tone, rate), max_tokens=64)
    assert judge_transcript(reply.text, "stop").ok


@pytest.mark.parametrize("channels", range(1, 9))
def test_channels_are_mixed(client, channels):
    samples = decode(LOW).samples
    assert client.transcribe(to_wav(samples, RATE, channels)).text == client.transcribe(to_wav(samples, RATE)).text


def test_the_shortest_recording_is_heard(client):
    assert client.transcribe(to_wav(np.full(321, 0.1), RATE)).text


@pytest.mark.parametrize("seconds", [25.0, 25.5, 29.9, 30.0, 31.0, 62.0, 150.0])
def test_a_long_recording_is_heard_to_its_end(client, seconds):
    """Cut every 25 s, as the model's own code does; 30 s once ended the engine."""
    samples = decode(vowels(2.4, pitch=110)).samples
    long = np.resize(samples, round(seconds * RATE))
    reply = client.transcribe(to_wav(long, RATE))
    assert judge_transcript(reply.text, reply.finish_reason).ok
    assert reply.usage["prompt_tokens"] > seconds * 12.5
    # The synthetic model averages what it hears, so the other end must weigh something.
    other = long.copy()
    other[len(long) // 2 :] = np.resize(decode(HIGH).samples, len(long) - len(long) // 2)
    assert client.transcribe(to_wav(other, RATE)).text != reply.text


def test_two_recordings_and_then_one_of_them(client):
    """The first of two once held both, so that the second alone gave the encoder nothing."""

    def both(first, second):
        message = heard(first, TRANSCRIBE)
        message["content"] += heard(second)["content"]
        return client.chat([message], modalities=["text"]).text

    one, two = (to_wav(0.2 * np.sin(np.arange(n * RATE + 160 * n) * n / 20), RATE) for n in (1, 2))
    together = both(one, two)
    assert client.transcribe(two).text
    assert client.transcribe(one).text
    assert both(one, two) == together
    assert both(two, one)
