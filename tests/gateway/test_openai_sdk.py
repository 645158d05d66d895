"""OpenAI's Python SDK, with only ``base_url`` and ``api_key`` changed."""

import base64
import io
import json
import wave

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
    model = sdk.models.retrieve(MODEL)
    assert (model.id, model.object) == (MODEL, "model")


def test_speech(sdk):
    answer = sdk.audio.speech.create(model=MODEL, voice="ryan", input=TEXT, response_format="wav")
    verdict = judge_speech(answer.content, fmt="wav", text=TEXT, content_type=answer.response.headers["content-type"])
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
        messages=[*heard("Answer this recording."), {"role": "assistant", "content": "<tts_start>"}],
        modalities=["audio"],
        extra_body={"continue_final_message": True, "add_generation_prompt": False},
    )
    audio = next(choice.message.audio for choice in answer.choices if choice.message.audio)
    verdict = judge_speech(base64.b64decode(audio.data), fmt="wav", text=None)
    assert verdict.ok, str(verdict)


def test_errors_are_the_sdks_own(sdk, gateway):
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.audio.speech.create(model="tts-9", voice="alloy", input=TEXT)
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("tts-9")
    with pytest.raises(openai.BadRequestError, match="nobody") as caught:
        sdk.audio.speech.create(model=MODEL, voice="nobody", input=TEXT, response_format="wav")
    assert caught.value.type == "invalid_request_error"
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


async def ask_async(url):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        answer = await client.audio.speech.create(model=MODEL, voice="vivian", input="Hello.", response_format="wav")
        return answer.content


def test_the_async_client(gateway):
    import asyncio

    verdict = judge_speech(asyncio.run(ask_async(gateway.url)), fmt="wav", text="Hello.")
    assert verdict.ok, str(verdict)


def in_wav(pcm):
    """Return the engine's PCM (24 kHz, mono, 16 bit) as a WAV file."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24000)
        file.writeframes(pcm)
    return out.getvalue()
