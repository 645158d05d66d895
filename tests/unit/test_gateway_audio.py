"""Encoding and tempo: what comes out, decoded, is what went in."""

import io
import struct
import wave

import av
import numpy as np
import pytest

from firstword.acceptance.audio import decode
from firstword.acceptance.containers import identify
from firstword.gateway.audio import tempo, wav
from firstword.gateway.audio.encoding import Transcoder
from firstword.gateway.audio.formats import FORMATS, RATE
from sounds import to_pcm, voice

SOUND = voice(2.0)
PCM = to_pcm(SOUND)
# Seconds by which a decoded answer may be longer: encoders fill their last frame, and MP3 and AAC begin with a delay
# that only a header at the front could tell.
SLACK = {"mp3": 0.11, "aac": 0.13, "opus": 0.001, "flac": 0, "wav": 0, "pcm": 0}


def transcode(fmt, pcm=PCM, *, step=9601, **options):
    transcoder = Transcoder(FORMATS[fmt], **options)
    pieces = [transcoder.feed(pcm[at : at + step]) for at in range(0, len(pcm), step)]
    return [*pieces, transcoder.finish()], transcoder


def samples(fmt, body):
    """Return decoded samples at 24 kHz."""
    if fmt in ("pcm", "wav"):
        return decode(body, raw=fmt == "pcm").samples
    with av.open(io.BytesIO(body)) as source:
        resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
        frames = [part for frame in source.decode(audio=0) for part in resampler.resample(frame)]
        frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


def alike(one, other):
    """Return the best correlation of two sounds over the delays that encoders add, and its delay in samples."""
    best = (0.0, 0)
    for delay in range(3000):
        shifted = other[delay : delay + len(one)]
        short = one[: len(shifted)]
        best = max(best, (float(np.corrcoef(short[::7], shifted[::7])[0, 1]), delay))
    return best


@pytest.mark.parametrize("fmt", FORMATS)
def test_each_format_holds_the_sound(fmt):
    pieces, transcoder = transcode(fmt)
    got = samples(fmt, b"".join(pieces))
    assert identify(b"".join(pieces)).name in ((fmt,) if fmt != "pcm" else ("unknown",))
    assert transcoder.samples == len(SOUND)
    extra = (len(got) - len(SOUND)) / RATE
    assert 0 <= extra + 1e-3 <= SLACK[fmt] + 1e-3
    correlation, _ = alike(SOUND, got)
    assert correlation > (0.97 if fmt in ("mp3", "opus", "aac") else 0.99999)
    assert abs(20 * np.log10(np.std(got) / np.std(SOUND))) < 0.6


@pytest.mark.parametrize("fmt", FORMATS)
def test_bytes_come_before_the_end(fmt):
    pieces, _ = transcode(fmt, step=9600)  # a fifth of a second
    assert len(pieces[0] + pieces[1]) > 100
    assert sum(1 for piece in pieces if piece) >= 8


@pytest.mark.parametrize("fmt", FORMATS)
def test_how_it_is_cut_changes_nothing(fmt):
    assert b"".join(transcode(fmt, step=1)[0] if fmt == "pcm" else transcode(fmt, step=777)[0]) == b"".join(
        transcode(fmt, step=50_000)[0]
    )


@pytest.mark.parametrize("speed", [0.25, 0.4, 0.8, 1.5, 2.0, 3.0, 4.0])
def test_the_tempo_changes_the_length_and_not_the_pitch(speed):
    time = np.arange(RATE * 2) / RATE
    tone = (0.3 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
    pieces, transcoder = transcode("pcm", to_pcm(tone), speed=speed)
    got = samples("pcm", b"".join(pieces))
    assert len(got) == transcoder.samples
    assert len(got) / RATE == pytest.approx(2 / speed, abs=0.06)
    middle = got[len(got) // 4 : -len(got) // 4]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert np.argmax(spectrum) * RATE / len(middle) == pytest.approx(440, abs=5)
    assert np.std(got) == pytest.approx(np.std(tone), rel=0.1)


@pytest.mark.parametrize("speed", [0.25, 0.5, 1.0, 2.0, 2.5, 4.0])
def test_tempo_is_made_of_steps_that_blend(speed):
    steps = tempo.steps(speed)
    assert all(0.5 <= step <= 2 for step in steps)
    assert np.prod(steps) == pytest.approx(speed)


def test_a_whole_wav_says_its_length():
    body = b"".join(transcode("wav", whole=True)[0])
    with wave.open(io.BytesIO(body)) as file:
        assert (file.getnframes(), file.getframerate(), file.getnchannels()) == (len(SOUND), RATE, 1)
        assert file.readframes(file.getnframes()) == PCM
    assert struct.unpack("<I", body[4:8])[0] == len(body) - 8


def test_a_streamed_wav_is_played_whole():
    pieces, _ = transcode("wav")
    body = b"".join(pieces)
    assert body[:44] == wav.header()
    with wave.open(io.BytesIO(body)) as file:
        assert file.readframes(file.getnframes()) == PCM
    with av.open(io.BytesIO(body)) as source:
        assert sum(frame.samples for frame in source.decode(audio=0)) == len(SOUND)


def test_samples_that_end_in_half_are_told():
    transcoder = Transcoder(FORMATS["pcm"])
    transcoder.feed(b"abc")
    with pytest.raises(ValueError, match="inside a sample"):
        transcoder.finish()
