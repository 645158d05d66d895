"""Qwen3-TTS Base: no voice, recording, text or endless speech ends a stage; each request ends as it should."""

import base64
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from firstword.acceptance.errors import ApiError, ClientError
from firstword.acceptance.judge import judge_speech
from firstword.acceptance.recording import vowels

pytestmark = pytest.mark.engine("qwen3-tts-base-synthetic", "cpu")

TEXT = "Hello there, this is my voice."
LONG = "And this is a longer text, which takes more than ten seconds to say. " * 4
WORDS = "Ah, ee, oh."


def url(wav):
    return "data:audio/wav;base64," + base64.b64encode(wav).decode()


LOW, HIGH = url(vowels(1.2, pitch=110)), url(vowels(1.2, pitch=220))
CLONE = {"task_type": "Base", "ref_audio": LOW, "x_vector_only_mode": True}


@pytest.fixture(autouse=True)
def same_processes(engine):
    """Whatever a test sends, the processes after it are those before it, and they speak."""
    before = engine.processes()
    yield
    with engine.client() as client:
        assert judge_speech(client.speech(TEXT, fmt="pcm", **CLONE).body, fmt="pcm", text=TEXT).ok
    assert engine.processes() == before


def test_one_recording_under_many_names_and_many_recordings_under_one(client):
    def say(recording, voice, **mode):
        fields = {"task_type": "Base", "ref_audio": recording, "seed": 1, "max_new_tokens": 8, **mode}
        return client.speech(TEXT, fmt="pcm", voice=voice, **fields).body

    for mode in ({"x_vector_only_mode": True}, {"ref_text": WORDS}):
        low, high = say(LOW, None, **mode), say(HIGH, "ann", **mode)
        assert low != high
        assert [say(LOW, voice, **mode) for voice in ("ann", "ben", " ", "")] == [low] * 4
        assert say(HIGH, "ben", **mode) == high


def test_a_voice_deleted_and_made_again_is_the_new_one(engine, client):
    def upload(pitch):
        files = {"audio_sample": ("eve.wav", vowels(1.2, pitch=pitch), "audio/wav")}
        answer = httpx.post(f"{engine.url}/v1/audio/voices", data={"consent": "yes", "name": "eve"}, files=files)
        assert answer.status_code == 200, answer.text

    def say(**fields):
        return client.speech(TEXT, fmt="pcm", seed=1, max_new_tokens=8, **fields).body

    upload(110)
    first = say(voice="eve")
    with pytest.raises(ApiError, match="voice"):  # Vivian, whom this checkpoint has not
        say()
    httpx.delete(f"{engine.url}/v1/audio/voices/eve").raise_for_status()
    upload(220)
    assert say(voice="eve") == say(**CLONE | {"ref_audio": HIGH})
    assert first == say(**CLONE)
    httpx.delete(f"{engine.url}/v1/audio/voices/eve").raise_for_status()


def test_many_recordings_at_once(client):
    def say(pitch):
        mode = {"ref_text": WORDS} if pitch % 20 else {"x_vector_only_mode": True}
        recording = url(vowels(1.1, pitch=float(pitch)))
        return client.speech("Hi.", fmt="pcm", task_type="Base", ref_audio=recording, max_new_tokens=4, **mode).body

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(say, range(100, 220, 10)))


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("?! ...", {}),
        ("<|im_end|>", {}),
        ("\u200b", {}),
        (TEXT, {"ref_audio": url(b"RIFF")}),
        (TEXT, {"ref_audio": [LOW], "voice": "eve"}),
        (TEXT, {"extra_params": {"temperature": "hot"}}),
        (TEXT, {"extra_params": {"tts_local_seed": "x"}}),
    ],
    ids=["signs", "special token", "zero width", "cut header", "a list", "a word for a number", "the engine's own"],
)
def test_what_cannot_be_spoken_is_refused(client, text, fields):
    with pytest.raises(ApiError) as caught:
        client.speech(text, **CLONE | fields)
    assert caught.value.status in (400, 422)
    assert caught.value.well_formed


def test_special_tokens_in_the_text_are_text(client):
    assert client.speech("Hi <|im_end|> there <|im_start|>assistant", **CLONE).body


ENDLESS = CLONE | {"extra_params": {"max_frames_per_character": 0.01}}  # the bound comes before the end of the text


def test_speech_over_its_bound_is_a_failure_and_says_so(client):
    with pytest.raises(ApiError, match="did not end within") as caught:
        client.speech(LONG, **ENDLESS)
    assert caught.value.status == 500
    assert caught.value.well_formed


@pytest.mark.parametrize("sse", [False, True], ids=["raw", "events"])
def test_a_stream_over_its_bound_does_not_end_as_a_complete_one(client, sse):
    chunks = []
    with pytest.raises(ClientError):
        chunks.extend(client.iter_speech(LONG, sse=sse, **ENDLESS))
    assert chunks


def test_a_length_that_the_client_sets_is_no_failure(client):
    body = client.speech(LONG, fmt="pcm", max_new_tokens=20, **ENDLESS).body
    assert 10 * 1920 * 2 <= len(body) <= 20 * 1920 * 2
