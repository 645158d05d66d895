"""OpenAI's Python SDK as its asynchronous client: each area once, and several at a time."""

import asyncio
import base64

import openai

from conftest import KEY, RECOGNITION, SPEECH
from firstword.acceptance.judge import judge_speech, judge_transcript
from firstword.acceptance.recording import vowels

TEXT = "A word about the weather, please."


def asked(gateway, work):
    """Return what ``work`` returns for a client."""

    async def ask():
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=120) as client:
            return await work(client)

    return asyncio.run(ask())


def test_models_and_speech(gateway):
    async def work(client):
        models = [model.id async for model in client.models.list()]
        answer = await client.audio.speech.create(model="tts-1", voice="alloy", input=TEXT)
        return models, answer.content

    models, sound = asked(gateway, work)
    assert models == [SPEECH[0], RECOGNITION[0]]
    verdict = judge_speech(sound, fmt="mp3", text=TEXT)
    assert verdict.ok, str(verdict)


def test_speech_streamed(gateway):
    async def work(client):
        speech = client.audio.speech.with_streaming_response
        async with speech.create(model="tts-1", voice="alloy", input=TEXT, response_format="opus") as answer:
            return [piece async for piece in answer.iter_bytes()]

    pieces = asked(gateway, work)
    assert len(pieces) > 2
    verdict = judge_speech(b"".join(pieces), fmt="opus", text=TEXT)
    assert verdict.ok, str(verdict)


def test_recognition_streamed_translated_and_answered_at_once(gateway):
    sound = {"data": base64.b64encode(vowels()).decode(), "format": "wav"}

    async def streamed(client):
        stream = await client.audio.transcriptions.create(model="whisper-1", file=("a.wav", vowels()), stream=True)
        return [event async for event in stream][-1].text

    async def translated(client):
        return (await client.audio.translations.create(model="whisper-1", file=("a.wav", vowels()))).text

    async def answered(client):
        answer = await client.chat.completions.create(
            model=RECOGNITION[0],
            messages=[{"role": "user", "content": [{"type": "input_audio", "input_audio": sound}]}],
            modalities=["text", "audio"],
            audio={"voice": "alloy", "format": "mp3"},
        )
        return base64.b64decode(answer.choices[0].message.audio.data)

    async def work(client):
        return await asyncio.gather(streamed(client), translated(client), answered(client))

    *texts, spoken = asked(gateway, work)
    for text in texts:
        verdict = judge_transcript(text, "stop")
        assert verdict.ok, str(verdict)
    verdict = judge_speech(spoken, fmt="mp3", text=None)
    assert verdict.ok, str(verdict)
