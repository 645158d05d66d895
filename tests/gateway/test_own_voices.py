"""An uploaded voice, spoken by a real engine, and still there when engine and gateway were started anew."""

import base64

import pytest
from engines import Engine
from gateway_process import GatewayProcess

from firstword.acceptance.judge import judge_speech
from firstword.acceptance.recording import vowels

MODEL = "qwen3-tts-base-synthetic"
TEXT = "The quick brown fox jumps over the lazy dog."
WORDS = "Ah, ee, oh."


@pytest.fixture(scope="module")
def engine(stack):
    base = Engine(MODEL, "cpu", stack.speech.run_dir)
    try:
        base.start()
        yield base
    finally:
        base.stop()


def say(gateway, **fields):
    body = {"model": MODEL, "input": TEXT, "response_format": "pcm", "seed": 1, **fields}
    answer = gateway.http.post("/v1/audio/speech", json=body)
    assert answer.status_code == 200, answer.text
    assert judge_speech(answer.content, fmt="pcm", text=TEXT, content_type="audio/pcm").ok
    return answer.content


def upload(gateway, name, pitch, **fields):
    files = {"audio_sample": ("sample.wav", vowels(pitch=pitch), "audio/wav")}
    answer = gateway.http.post("/v1/audio/voices", data={"name": name, "consent": "cons_1", **fields}, files=files)
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def listed(gateway):
    return gateway.http.get("/v1/audio/voices", params={"names": True}).json()["voices"]


def test_a_voice_outlives_its_engine_and_its_gateway(engine, tmp_path):
    process = GatewayProcess(engine.run_dir, [engine], "gateway-of-voices", VOICES_DIR=str(tmp_path / "voices"))
    with process as gateway:
        gateway.wait(200)
        low, high = upload(gateway, "Low", 110, ref_text=WORDS), upload(gateway, "High", 220)
        assert listed(gateway) == sorted((low, high))
        said = say(gateway, voice=low)
        assert say(gateway, voice="high") != said
        reference = "data:audio/wav;base64," + base64.b64encode(vowels(pitch=110)).decode()
        assert say(gateway, ref_audio=reference, ref_text=WORDS) == said
        assert say(gateway, voice=low, x_vector_only_mode=True) != said
    engine.stop()
    engine.start()
    with process as gateway:
        gateway.wait(200)
        assert listed(gateway) == sorted((low, high))
        assert say(gateway, voice=low) == said
        assert gateway.http.delete(f"/v1/audio/voices/{low}").status_code == 200
        assert listed(gateway) == [high]
        gone = gateway.http.post("/v1/audio/speech", json={"model": MODEL, "input": TEXT, "voice": low})
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "voice_not_found")
