"""What the gateway makes of an engine's samples: each format, decoded, is what the engine said."""

import io
import wave

import av
import numpy as np
import pytest

from conftest import RECOGNITION, SPEECH
from firstword.acceptance.audio import decode

TEXT = "Please bring the blue chair to the second room before lunch."
MODELS = {SPEECH[0]: "ryan", RECOGNITION[0]: "default"}
# Encoders begin with a delay and fill their last frame.
SLACK = {"mp3": 0.12, "aac": 0.14, "opus": 0.01, "flac": 0.0, "wav": 0.0}


@pytest.fixture(scope="module")
def said(stack):
    """Return what each engine itself says, as samples: float32 at 24 kHz."""
    found = {}
    for engine in stack.engines:
        with engine.client() as direct:
            body = direct.speech_stream(TEXT, voice=MODELS[engine.model], seed=3).body
        found[engine.model] = np.frombuffer(body, "<i2") / np.float32(2**15)
    return found


def samples(fmt, body):
    if fmt == "wav":
        return decode(body).samples
    with av.open(io.BytesIO(body)) as source:
        resampler = av.AudioResampler(format="flt", layout="mono", rate=24000)
        frames = [part for frame in source.decode(audio=0) for part in resampler.resample(frame)]
        frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("fmt", SLACK)
def test_each_format_is_what_the_engine_said(gateway, said, model, fmt):
    body = {"model": model, "input": TEXT, "voice": MODELS[model], "seed": 3, "response_format": fmt}
    got, wanted = samples(fmt, gateway.http.post("/v1/audio/speech", json=body).content), said[model]
    assert -0.001 <= (len(got) - len(wanted)) / 24000 <= SLACK[fmt]
    assert abs(20 * np.log10(np.std(got) / np.std(wanted))) < 1.0
    # The encoder's delay is where the two agree best.
    size = 1 << (len(got) + len(wanted)).bit_length()
    product = np.fft.irfft(np.fft.rfft(got, size) * np.conj(np.fft.rfft(wanted, size)), size)
    delay = int(np.argmax(product[:4000]))
    both = got[delay : delay + len(wanted)]
    assert np.corrcoef(both, wanted[: len(both)])[0, 1] > (0.9 if SLACK[fmt] else 0.99999)


@pytest.mark.parametrize("speed", [0.5, 3.0])
def test_speed_is_followed_in_a_stream(gateway, said, speed):
    body = {"model": SPEECH[0], "input": TEXT, "voice": "ryan", "seed": 3, "response_format": "pcm", "speed": speed}
    answer = gateway.http.post("/v1/audio/speech", json=body | {"stream_format": "audio"})
    seconds = len(said[SPEECH[0]]) / 24000
    assert len(answer.content) / 48000 == pytest.approx(seconds / speed, rel=0.03)


def test_a_streamed_wav_is_played_whole(gateway, said):
    body = {"model": SPEECH[0], "input": TEXT, "voice": "ryan", "seed": 3, "response_format": "wav"}
    answer = gateway.http.post("/v1/audio/speech", json=body | {"stream_format": "audio"}).content
    with wave.open(io.BytesIO(answer)) as file:
        assert len(file.readframes(file.getnframes())) == 2 * len(said[SPEECH[0]])
    with av.open(io.BytesIO(answer)) as source:
        assert sum(frame.samples for frame in source.decode(audio=0)) == len(said[SPEECH[0]])
