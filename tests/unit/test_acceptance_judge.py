"""Every way in which an answer can be bad is told apart by name, in every format, on real files."""

import json

import numpy as np
import pytest

from firstword.acceptance.judge import FORMATS, judge_speech, judge_transcript
from sounds import RATE, TEXT, encode, streamed, to_wav, to_wav_float, voice


def judge(body, fmt, text=TEXT, **options):
    return judge_speech(body, fmt=fmt, text=text, **options)


def zeros(seconds):
    return np.zeros(round(seconds * RATE), np.float32)


@pytest.mark.parametrize("fmt", FORMATS)
def test_good_speech_passes(fmt):
    verdict = judge(encode(voice(), fmt), fmt)
    assert verdict.ok, str(verdict)
    assert verdict.facts["rate"] == RATE
    assert verdict.facts["channels"] == 1
    assert 2.9 < verdict.facts["seconds"] < 3.1


# name of the failure -> what is said wrongly
BAD_SOUNDS = {
    "too-short": voice(0.1),
    "too-long": voice(14),
    "silence": zeros(3),
    "low-level": voice(level=0.003),
    "clipped": np.clip(voice() * 20, -1, 1),
    "dc": voice() + np.float32(0.1),
}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", BAD_SOUNDS)
def test_bad_sound_is_rejected_by_name(name, fmt):
    if (name, fmt) == ("dc", "opus"):
        # Opus cannot carry it: its encoder takes the mean out, so there is nothing to reject.
        assert judge(encode(BAD_SOUNDS[name], fmt), fmt).ok
    else:
        assert judge(encode(BAD_SOUNDS[name], fmt), fmt).names == (name,)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize(
    "sound",
    [
        np.concatenate([voice(0.9), zeros(2.1)]),
        np.concatenate([zeros(2.1), voice(2.5)]),
        np.concatenate([voice(1.5), zeros(2.5), voice(1.5)]),
        voice(3.6) * np.repeat(np.arange(12) % 4 == 0, 3 * RATE // 10).astype(np.float32),
    ],
    ids=["the end", "the start", "the middle", "three quarters in pieces"],
)
def test_partial_silence_is_silence(sound, fmt):
    assert judge(encode(sound, fmt), fmt).names == ("silence",)


@pytest.mark.parametrize("fmt", ["wav", "flac", "pcm", "mp3"])
def test_a_constant_is_silence_too(fmt):
    # AAC and Opus make a wobble of it that can be heard.
    assert judge(encode(zeros(3) + np.float32(0.2), fmt), fmt).names == ("silence", "dc")


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt != "pcm"])
@pytest.mark.parametrize("rate", [16000, 48000])
def test_wrong_rate(fmt, rate):
    assert judge(encode(voice(rate=rate), fmt, rate=rate), fmt).names == ("wrong-rate",)


def test_wrong_rate_of_raw_pcm_shows_in_its_type_or_its_length():
    body = encode(voice(rate=48000), "pcm")
    assert "wrong-rate" in judge(body, "pcm", content_type="audio/pcm;rate=48000").names
    assert judge(encode(voice(4, rate=48000), "pcm"), "pcm").names == ("too-long",)


@pytest.mark.parametrize("fmt", FORMATS)
def test_wrong_channels(fmt):
    assert judge(encode(voice(), fmt, channels=2), fmt).names == ("wrong-channels",)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("keep", [0.75, -1], ids=["a quarter", "one byte"])
def test_cut_container(fmt, keep):
    body = encode(voice(4), fmt)
    cut = body[: round(len(body) * keep) | 1] if keep > 0 else body[:-1]
    assert judge(cut, fmt).names == ("cut-container",)


@pytest.mark.parametrize("fmt", ["wav", "flac", "mp3", "opus"])
def test_cut_between_two_frames(fmt):
    """Where the container declares its length or marks its end, a clean cut shows as well."""
    body = encode(voice(4), fmt)
    at = {
        "wav": lambda: len(body) // 2 & ~1,
        "flac": lambda: body.rindex(b"\xff\xf8"),
        "opus": lambda: body.rindex(b"OggS"),
        "mp3": lambda: body.rindex(body[body.index(b"\xff\xf3", 600) :][:2]),
    }[fmt]()
    assert judge(body[:at], fmt).names == ("cut-container",)


def test_a_frame_that_no_decoder_reads_cuts_the_rest_off():
    """AAC declares no length, and all its frame headers are whole: only the decoder tells."""
    body = bytearray(encode(voice(4), "aac"))
    starts = [0]
    while starts[-1] < len(body):
        header = body[starts[-1] :]
        starts.append(starts[-1] + ((header[3] & 3) << 11 | header[4] << 3 | header[5] >> 5))
    damaged = starts[-10]
    body[damaged + 7 : starts[-9]] = b"\xff" * (starts[-9] - damaged - 7)
    verdict = judge(bytes(body), "aac")
    assert verdict.names == ("cut-container",)
    assert "decoding stopped early" in str(verdict)


def test_open_length_is_tolerated_only_when_told():
    body = streamed(to_wav(voice()))
    assert judge(body, "wav").names == ("cut-container",)
    assert judge(body, "wav", streamed=True).ok
    assert judge(body[:-1], "wav", streamed=True).names == ("cut-container",)


def test_header_that_declares_nothing():
    body = to_wav(voice())
    assert "cut-container" in judge(body[:40] + bytes(4) + body[44:], "wav").names


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"error": {"message": "no audio", "code": 500}}).encode(),
        json.dumps({"detail": "x" * 200_000}).encode(),
        b"<html><body>502 Bad Gateway</body></html>",
        'data: {"type":"speech.audio.delta"}\n\nSprich ä'.encode(),
        b"",
    ],
    ids=["json", "long json", "html", "events", "empty"],
)
def test_not_audio(fmt, body):
    good_type = {"wav": "audio/wav", "mp3": "audio/mpeg", "opus": "audio/ogg"}.get(fmt, f"audio/{fmt}")
    assert judge(body, fmt, content_type=good_type).names == ("not-audio",)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("other", FORMATS)
def test_wrong_container(fmt, other):
    if fmt == other:
        return
    names = judge(encode(voice(), other), fmt).names
    if fmt == "pcm" and other in ("mp3", "aac"):
        # Neither has a mark that raw samples could not hold; what shows is that it is no speech.
        assert names
    else:
        assert names == ("wrong-container",)


def test_wrong_type():
    body = encode(voice(), "mp3")
    assert judge(body, "mp3", content_type="audio/mpeg").ok
    assert judge(body, "mp3", content_type="audio/wav").names == ("wrong-type",)
    assert judge(body, "mp3", content_type="").names == ("wrong-type",)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(value):
    # Only float samples can hold it; every other format here is made of integers.
    sound = voice()
    assert judge(to_wav_float(sound), "wav").ok
    sound[1234] = value
    assert judge(to_wav_float(sound), "wav").names == ("nan",)


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt != "pcm"])
def test_damage_never_raises(fmt):
    body = bytearray(encode(voice(), fmt))
    generator = np.random.default_rng(1)
    for _ in range(60):
        broken = bytearray(body[: generator.integers(1, len(body))])
        for position in generator.integers(0, len(broken), 8):
            broken[position] ^= int(generator.integers(1, 256))
        assert not judge(bytes(broken), fmt, content_type="text/plain").ok


def test_unknown_format_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="ogg"):
        judge(b"", "ogg")


def test_speed_scales_the_window():
    body = encode(voice(1.2), "wav")
    assert judge(body, "wav").names == ("too-short",)
    assert judge(body, "wav", speed=2.0).ok


def test_all_failures_are_named_at_once():
    body = encode(np.clip(voice(0.2, rate=16000) * 30 + 0.2, -1, 1), "wav", rate=16000)
    assert set(judge(body, "wav").names) == {"wrong-rate", "too-short", "clipped", "dc"}


def test_good_transcript():
    assert judge_transcript("Hello there.\nIt is 20 °C; 你好。", "stop").ok


@pytest.mark.parametrize(
    ("text", "finish_reason", "name"),
    [
        ("", "stop", "no-transcript"),
        (None, "stop", "no-transcript"),
        (" \n", "stop", "no-transcript"),
        ("Hello", "length", "not-ended"),
        ("Hello", None, "not-ended"),
        ("Hel\ufffdlo", "stop", "not-printable"),
        ("Hel\x00lo", "stop", "not-printable"),
        ("Hel\ue000lo", "stop", "not-printable"),
        ("Hello<|EOT|>", "stop", "special-token"),
        ("<|im_start|>Hello", "stop", "special-token"),
        ("<tts_start>Hello", "stop", "special-token"),
        ("Hello<audio_1523>", "stop", "special-token"),
        ("Hello</s>", "stop", "special-token"),
    ],
)
def test_bad_transcript_is_rejected_by_name(text, finish_reason, name):
    assert judge_transcript(text, finish_reason).names == (name,)


def test_angle_brackets_alone_are_no_token():
    assert judge_transcript("if a < b then <b>bold</b> and x > y", "stop").ok
