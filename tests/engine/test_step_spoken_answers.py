"""Step-Audio-2 listens and speaks."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from listening import HIGH, LOW, heard

from firstword.acceptance.audio import decode
from firstword.acceptance.judge import judge_speech, judge_transcript

pytestmark = pytest.mark.engine("step-audio-2-mini-synthetic", "speech-cpu")

SAMPLES_PER_TOKEN = 960  # 25 audio tokens a second at 24 kHz
SPEAKING = {
    "modalities": ["audio"],
    # The model speaks after this mark; without it, it writes.
    "continue_final_message": True,
    "add_generation_prompt": False,
    "seed": 1,
}


def answer(client, recording, *, stream=False, **fields):
    messages = [heard(recording, "Answer aloud."), {"role": "assistant", "content": "<tts_start>"}]
    ask = client.chat_stream if stream else client.chat
    return ask(messages, **{**SPEAKING, **fields})


def test_a_spoken_answer_is_good(client):
    reply = answer(client, LOW)
    assert judge_speech(reply.audio.body, fmt="wav", text=None).ok
    assert reply.finish_reason == "stop"


def test_the_recording_makes_the_answer_and_an_equal_one_the_same(client):
    one = answer(client, LOW).audio.body
    assert answer(client, HIGH).audio.body != one
    assert answer(client, LOW).audio.body == one


def test_each_audio_token_is_decoded_once(client):
    """Without the fix of vllm-omni #5916 every chunk is decoded alone, and its look-ahead twice."""
    written = answer(client, LOW, modalities=["text"]).text
    sound = decode(answer(client, LOW).audio.body)
    assert len(sound.samples) == written.count("<audio_") * SAMPLES_PER_TOKEN > 0


def test_streamed_and_plain_are_one_sound(client):
    plain = decode(answer(client, LOW).audio.body).samples
    reply = answer(client, LOW, stream=True, audio={"format": "pcm16"})
    assert len(reply.audio.chunks) >= 2
    assert judge_speech(reply.audio.body, fmt="pcm", text=None).ok
    assert (decode(reply.audio.body, raw=True).samples == plain).all()


def test_streamed_wav_chunks_are_whole_files(client):
    """vLLM-Omni sends each chunk as a WAV of its own when no format is named."""
    reply = answer(client, LOW, stream=True)
    plain = decode(answer(client, LOW).audio.body).samples
    parts = [decode(chunk.data).samples for chunk in reply.audio.chunks]
    assert sum(map(len, parts)) == len(plain)


def test_text_beside_sound(client):
    reply = answer(client, LOW, modalities=["text", "audio"])
    assert judge_speech(reply.audio.body, fmt="wav", text=None).ok


def test_listening_writing_and_speaking_at_once(client):
    """The three kinds share one thinker, and one of them skips token2wav."""

    def ask(number):
        kind = number % 3
        if kind == 0:
            return client.transcribe(LOW).text
        if kind == 1:
            return client.speech("Nine requests of three kinds at once.", fmt="pcm", seed=1).body
        return answer(client, HIGH).audio.body

    alone = [ask(number) for number in range(3)]
    assert judge_transcript(alone[0], "stop").ok
    with ThreadPoolExecutor(9) as pool:
        together = list(pool.map(ask, range(9)))
    assert together == alone * 3
