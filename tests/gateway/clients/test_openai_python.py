"""OpenAI's Python SDK, with only ``base_url`` and ``api_key`` changed."""

import base64
import io
import json
import wave

import av
import numpy as np
import openai
import pytest

from conftest import KEY, RECOGNITION, SPEECH
from firstword.acceptance.client import TRANSCRIBE
from firstword.acceptance.judge import judge_speech, judge_transcript
from firstword.acceptance.recording import vowels

TEXT = "The quick brown fox jumps over the lazy dog."
MODEL = SPEECH[0]
LISTENER = RECOGNITION[0]


def heard(words):
    sound = {"type": "input_audio", "input_audio": {"data": base64.b64encode(vowels()).decode(), "format": "wav"}}
    return [{"role": "user", "content": [{"type": "text", "text": words}, sound]}]


def test_models(sdk):
    assert [model.id for model in sdk.models.list()] == [MODEL, LISTENER]
    for name in (MODEL, "tts-1", "tts-1-hd", "gpt-4o-mini-tts", "tts-1-es", "whisper-1", "gpt-4o-transcribe"):
        model = sdk.models.retrieve(name)
        assert (model.id, model.object) == (name, "model")


@pytest.mark.parametrize("fmt", ["mp3", "opus", "aac", "flac", "wav", "pcm", None])
def test_speech(sdk, fmt):
    """As an application of OpenAI's asks: its model, its voice, any format; mp3 when it names none."""
    fields = {"response_format": fmt} if fmt else {}
    answer = sdk.audio.speech.create(model="tts-1", voice="alloy", input=TEXT, **fields)
    kind = answer.response.headers["content-type"]
    verdict = judge_speech(answer.content, fmt=fmt or "mp3", text=TEXT, content_type=kind)
    assert verdict.ok, str(verdict)


def test_speech_with_everything_that_it_can_be_told(sdk):
    answer = sdk.audio.speech.create(
        model="gpt-4o-mini-tts-en",
        voice={"id": "nova"},
        input=TEXT,
        instructions="Speak softly.",
        response_format="flac",
        speed=2.0,
        extra_body={"seed": 3},
    )
    verdict = judge_speech(answer.content, fmt="flac", text=TEXT, speed=2.0)
    assert verdict.ok, str(verdict)


def test_speech_to_a_file_as_it_comes(sdk, tmp_path):
    speech = sdk.audio.speech.with_streaming_response
    with speech.create(model=MODEL, voice="ryan", input=TEXT, response_format="mp3") as answer:
        answer.stream_to_file(tmp_path / "speech.mp3")
    verdict = judge_speech((tmp_path / "speech.mp3").read_bytes(), fmt="mp3", text=TEXT)
    assert verdict.ok, str(verdict)


def test_speech_streamed_raw(sdk):
    speech = sdk.audio.speech.with_streaming_response
    with speech.create(model=MODEL, voice="ryan", input=TEXT, response_format="pcm", stream_format="audio") as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        pieces = list(answer.http_response.iter_raw())
    assert len(pieces) > 2
    verdict = judge_speech(in_wav(b"".join(pieces)), fmt="wav", text=TEXT)
    assert verdict.ok, str(verdict)


def test_speech_streamed_as_events(sdk):
    speech = sdk.audio.speech.with_streaming_response
    with speech.create(model=MODEL, voice="ryan", input=TEXT, response_format="pcm", stream_format="sse") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {")]
    deltas = [event for event in events if event["type"] == "speech.audio.delta"]
    assert len(deltas) > 2
    assert events[-1]["type"] == "speech.audio.done"
    verdict = judge_speech(in_wav(b"".join(base64.b64decode(event["audio"]) for event in deltas)), fmt="wav", text=TEXT)
    assert verdict.ok, str(verdict)


def test_chat_with_audio_in(sdk):
    answer = sdk.chat.completions.create(model=LISTENER, messages=heard(TRANSCRIBE), modalities=["text"])
    choice = answer.choices[0]
    verdict = judge_transcript(choice.message.content, choice.finish_reason)
    assert verdict.ok, str(verdict)


def test_chat_with_audio_in_streamed(sdk):
    plain = sdk.chat.completions.create(model=LISTENER, messages=heard(TRANSCRIBE), modalities=["text"], temperature=0)
    stream = sdk.chat.completions.create(
        model=LISTENER, messages=heard(TRANSCRIBE), modalities=["text"], temperature=0, stream=True
    )
    deltas = [choice.delta.content for event in stream for choice in event.choices if choice.delta.content]
    assert len(deltas) > 2
    assert "".join(deltas) == plain.choices[0].message.content


def test_chat_with_audio_in_and_out(sdk):
    answer = sdk.chat.completions.create(
        model=LISTENER,
        messages=heard("Answer this recording."),
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": "wav"},
    )
    message = answer.choices[0].message
    assert message.content is None
    assert "<audio_" not in message.audio.transcript
    verdict = judge_speech(base64.b64decode(message.audio.data), fmt="wav", text=None)
    assert verdict.ok, str(verdict)


def test_chat_with_audio_in_and_out_streamed(sdk):
    stream = sdk.chat.completions.create(
        model=LISTENER,
        messages=heard("Answer this recording."),
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": "pcm16"},
        stream=True,
    )
    choices = [choice for event in stream for choice in event.choices]
    audio = [choice.delta.audio for choice in choices if getattr(choice.delta, "audio", None)]
    sounds = [base64.b64decode(each["data"]) for each in audio if "data" in each]
    assert len(sounds) > 1
    assert choices[-1].finish_reason
    assert "<audio_" not in "".join(each.get("transcript", "") for each in audio)
    verdict = judge_speech(b"".join(sounds), fmt="pcm", text=None)
    assert verdict.ok, str(verdict)


def test_chat_to_a_voice_names_the_place_that_is_for_it(sdk):
    with pytest.raises(openai.BadRequestError, match="/v1/audio/speech"):
        sdk.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello."}])


def test_transcription(sdk):
    written = sdk.chat.completions.create(
        model=LISTENER, messages=heard(TRANSCRIBE), modalities=["text"], temperature=0
    )
    answer = sdk.audio.transcriptions.create(model="whisper-1", file=("vowels.wav", vowels()))
    verdict = judge_transcript(answer.text, "stop")
    assert verdict.ok, str(verdict)
    # As many words as the recording has room for; at 16 kHz some of them are others.
    assert abs(len(answer.text.split()) - len(written.choices[0].message.content.split())) <= 2


@pytest.mark.parametrize("shape", ["text", "srt", "vtt", "verbose_json"])
def test_transcription_in_each_shape(sdk, shape):
    answer = sdk.audio.transcriptions.create(
        model="whisper-1", file=("vowels.wav", vowels()), response_format=shape, language="en", prompt="A name."
    )
    if shape == "verbose_json":
        assert answer.language == "english"
        assert answer.segments[0].text == answer.text
        assert answer.segments[0].end == pytest.approx(answer.duration)
    else:
        assert isinstance(answer, str)
        assert answer.startswith({"srt": "1\n00:00:00,000 --> ", "vtt": "WEBVTT\n\n00:00:00.000 --> "}.get(shape, ""))


def test_transcription_streamed(sdk):
    plain = sdk.audio.transcriptions.create(model="gpt-4o-transcribe", file=("vowels.wav", vowels()))
    stream = sdk.audio.transcriptions.create(model="gpt-4o-transcribe", file=("vowels.wav", vowels()), stream=True)
    events = list(stream)
    assert [event.type for event in events[:-1]] == ["transcript.text.delta"] * (len(events) - 1)
    assert len(events) > 2
    assert "".join(event.delta for event in events[:-1]) == events[-1].text == plain.text


def test_transcription_of_a_minute(sdk):
    sound = minute()
    answer = sdk.audio.transcriptions.create(
        model="whisper-1", file=("minute.flac", sound), response_format="verbose_json"
    )
    assert answer.duration == pytest.approx(60, abs=0.1)
    assert len(answer.segments) >= 3
    assert answer.segments[-1].end == pytest.approx(answer.duration)
    assert answer.text == " ".join(segment.text for segment in answer.segments)


def test_translation(sdk):
    answer = sdk.audio.translations.create(model="whisper-1", file=("vowels.wav", vowels()))
    verdict = judge_transcript(answer.text, "stop")
    assert verdict.ok, str(verdict)


def test_what_is_no_recording(sdk):
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.audio.transcriptions.create(model="whisper-1", file=("x.wav", b"no recording"))
    assert (caught.value.code, caught.value.param) == ("invalid_audio", "file")


def test_errors_are_the_sdks_own(sdk):
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.audio.speech.create(model="tts-9", voice="alloy", input=TEXT)
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("tts-9")
    with pytest.raises(openai.BadRequestError, match="nobody") as caught:
        sdk.audio.speech.create(model=MODEL, voice="nobody", input=TEXT, response_format="wav")
    assert caught.value.type == "invalid_request_error"


@pytest.mark.own_gateway
def test_a_wrong_key_is_the_sdks_own_error(sdk, gateway):
    with pytest.raises(openai.AuthenticationError) as caught:
        sdk.with_options(api_key="sk-wrong").models.list()
    assert caught.value.code == "invalid_api_key"
    assert KEY not in gateway.log.read_text()


def test_the_request_id_is_the_sdks_and_the_engines(sdk):
    answer = sdk.chat.completions.create(
        model=LISTENER, messages=heard(TRANSCRIBE), modalities=["text"], extra_headers={"X-Request-Id": "mine-1"}
    )
    assert answer._request_id == "mine-1"
    assert answer.id == "chatcmpl-mine-1"


def minute():
    """Return a minute of vowels in FLAC."""
    with wave.open(io.BytesIO(vowels())) as file:
        samples, hertz = np.frombuffer(file.readframes(file.getnframes()), "<i2"), file.getframerate()
    long = np.tile(samples, 60 * hertz // len(samples) + 1)[: 60 * hertz]
    out = io.BytesIO()
    with av.open(out, "w", format="flac") as file:
        stream = file.add_stream("flac", rate=hertz, layout="mono")
        frame = av.AudioFrame.from_ndarray(long[None, :].copy(), format="s16", layout="mono")
        frame.sample_rate = hertz
        file.mux([*stream.encode(frame), *stream.encode(None)])
    return out.getvalue()


def in_wav(pcm):
    """Return the engine's PCM (24 kHz, mono, 16 bit) as a WAV file."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24000)
        file.writeframes(pcm)
    return out.getvalue()
