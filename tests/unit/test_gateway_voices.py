"""Uploaded voices: the form, what is kept of it and where, and what an engine is given. The engines are scripted."""

import base64
import io
import json
import wave

import numpy as np
import pytest
from websockets.sync.client import connect

from fake_engine import FakeEngine
from firstword.acceptance.recording import vowels
from firstword.gateway.audio.decoding import UnreadableError
from firstword.gateway.voices import recording
from firstword.gateway.voices.store import Voices
from gateway_kit import running
from sounds import encode, to_wav, voice

BASE, CUSTOM = "qwen3-tts-base-synthetic", "qwen3-tts-customvoice-synthetic"
VOICES, SPEECH = "/v1/audio/voices", "/v1/audio/speech"
FORM = {"name": "Ada", "consent": "cons_1"}


@pytest.fixture(scope="module")
def engines():
    with FakeEngine(BASE) as base, FakeEngine(CUSTOM) as custom:
        base.voices = []
        yield base, custom


@pytest.fixture(scope="module")
def stack(engines, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTWORD_RUN_DIR", str(tmp_path_factory.mktemp("run")))
        with running(*(engine.url for engine in engines), voices_limit=3, reference_limit=2_000_000) as gateway:
            gateway.wait()
            yield gateway


@pytest.fixture
def gateway(stack, engines):
    engines[0].bodies.clear()
    yield stack
    for each in uploaded(stack):
        assert stack.http.delete(f"{VOICES}/{each['id']}").status_code == 200


def uploaded(gateway):
    listed = gateway.http.get(VOICES).json()["voices"]
    return [each for each in listed if each["owned_by"] == "user"]


def upload(gateway, status=200, sound=None, filename="sample.wav", **fields):
    files = {"audio_sample": (filename, vowels() if sound is None else sound, "audio/wav")}
    answer = gateway.http.post(VOICES, data=FORM | fields, files=files)
    assert answer.status_code == status, answer.text
    return answer.json() if status == 200 else answer.json()["error"]


def say(gateway, status=200, **fields):
    body = {"model": BASE, "input": "Hello there.", "response_format": "pcm"} | fields
    answer = gateway.http.post(SPEECH, json=body)
    assert answer.status_code == status, answer.text
    return None if status == 200 else answer.json()["error"]


def samples(data_url):
    head, _, data = data_url.partition(",")
    assert head == "data:audio/wav;base64"
    with wave.open(io.BytesIO(base64.b64decode(data))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24000, 1, 2)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def test_a_voice_is_made_listed_and_deleted(gateway):
    made = upload(gateway)
    assert set(made) == {"id", "object", "name", "created_at"}
    assert (made["object"], made["name"]) == ("audio.voice", "Ada")
    languages = gateway.http.get(f"/v1/models/{BASE}").json()["languages"]
    assert uploaded(gateway) == [made | {"model": BASE, "languages": languages, "owned_by": "user"}]
    assert gateway.http.get(VOICES, params={"model": CUSTOM, "names": "true"}).json() == {"voices": ["ryan", "vivian"]}
    assert gateway.http.get(VOICES, params={"model": BASE, "names": "true"}).json() == {"voices": [made["id"]]}
    gone = gateway.http.delete(f"{VOICES}/{made['id']}")
    assert gone.json() == {"id": made["id"], "object": "audio.voice", "deleted": True}
    assert uploaded(gateway) == []
    again = gateway.http.delete(f"{VOICES}/{made['id']}")
    assert (again.status_code, again.json()["error"]["code"]) == (404, "voice_not_found")
    assert say(gateway, 404, voice=made["id"])["code"] == "voice_not_found"


@pytest.mark.parametrize("by", ["id", "name", "object"])
def test_the_engine_is_given_the_recording(gateway, engines, by):
    made = upload(gateway)
    say(gateway, voice={"id": made["id"], "name": "ADA", "object": {"id": made["id"]}}[by])
    (body,) = engines[0].bodies
    assert "voice" not in body
    assert body["x_vector_only_mode"] is True
    with wave.open(io.BytesIO(vowels())) as file:
        seconds = file.getnframes() / file.getframerate()
    assert len(samples(body["ref_audio"])) == pytest.approx(seconds * 24000, abs=2)


def test_a_session_speaks_with_it_too(gateway, engines):
    made = upload(gateway)
    with connect(gateway.url.replace("http", "ws") + f"{SPEECH}/stream", proxy=None) as socket:
        for message in (
            {"type": "session.config", "model": BASE, "voice": made["id"]},
            {"type": "input.text", "text": "A."},
        ):
            socket.send(json.dumps(message))
        socket.send(json.dumps({"type": "input.done"}))
        while '"session.done"' not in str(socket.recv(timeout=10)):
            pass
    (body,) = engines[0].bodies
    assert "voice" not in body
    assert len(samples(body["ref_audio"])) > 24000


def test_what_is_said_in_it_goes_with_it(gateway, engines):
    made = upload(gateway, ref_text=" Ah, ee, oh. ")
    say(gateway, voice=made["id"])
    say(gateway, voice=made["id"], ref_text="Other words.")
    say(gateway, voice=made["id"], x_vector_only_mode=True)
    told = [(body.get("ref_text"), body["x_vector_only_mode"]) for body in engines[0].bodies]
    assert told == [("Ah, ee, oh.", False), ("Other words.", False), (None, True)]


def test_voices_outlive_their_gateway(gateway, engines, tmp_path):
    for _ in range(2):
        with running(engines[0].url, voices_dir=tmp_path / "kept") as one:
            one.wait()
            made = uploaded(one) or [upload(one)]
            say(one, voice=made[0]["id"])
    assert len({body["ref_audio"] for body in engines[0].bodies}) == 1


@pytest.mark.parametrize("fmt", ["mp3", "opus", "aac", "flac"])
def test_any_container_will_do(gateway, engines, fmt):
    made = upload(gateway, sound=encode(voice(2.0), fmt), filename="a.txt")
    say(gateway, voice=made["id"])
    assert len(samples(engines[0].bodies[0]["ref_audio"])) == pytest.approx(48000, rel=0.1)


@pytest.mark.parametrize(
    ("sound", "code"),
    [
        (b"", "empty_file"),
        (b"no recording at all", "invalid_audio"),
        (to_wav(voice(0.9)), "audio_too_short"),
        (to_wav(voice(30.5, rate=8000), rate=8000), "audio_too_long"),
        (to_wav(np.zeros(48000, np.float32)), "silent_audio"),
    ],
    ids=["empty", "no sound", "short", "long", "silent"],
)
def test_a_bad_recording_is_refused_and_nothing_kept(gateway, sound, code):
    error = upload(gateway, 400, sound=sound)
    assert (error["code"], error["param"]) == (code, "audio_sample")
    assert uploaded(gateway) == []


def test_a_recording_that_is_too_large_is_refused(gateway):
    assert upload(gateway, 413, sound=bytes(2_000_001))["code"] == "file_too_large"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"consent": ""}, "consent"),
        ({"consent": "   "}, "consent"),
        ({"name": ""}, "name"),
        ({"name": "../../etc/passwd"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "."}, "name"),
        ({"name": "n" * 65}, "name"),
        ({"name": "Alloy"}, "name"),
        ({"name": "default"}, "name"),
        ({"name": "Uncle Fu"}, "name"),
        ({"name": "voice_" + "0" * 24}, "name"),
        ({"speaker_embedding": "[1]"}, "speaker_embedding"),
    ],
)
def test_a_bad_field_is_named(gateway, fields, param):
    assert upload(gateway, 400, **fields)["param"] == param
    assert uploaded(gateway) == []


def test_consent_is_required_and_so_is_the_recording(gateway):
    files = {"audio_sample": ("a.wav", vowels())}
    answer = gateway.http.post(VOICES, data={"name": "Ada"}, files=files)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "consent")
    answer = gateway.http.post(VOICES, data=FORM, files={"consent_file": ("a.wav", vowels())})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_parameter")
    answer = gateway.http.post(VOICES, json=FORM)
    assert answer.status_code == 415


def test_a_name_is_one_voices_and_there_is_a_limit(gateway):
    made = upload(gateway)
    error = upload(gateway, 409, name="ADA")
    assert error["code"] == "voice_exists"
    assert made["id"] in error["message"]
    for name in ("Jürgen O'Neil", "声音"):
        assert upload(gateway, name=name)["name"] == name
    assert upload(gateway, 400, name="Fourth")["code"] == "too_many_voices"


def test_a_model_that_cannot_clone_says_so(gateway, engines):
    assert upload(gateway, 400, model=CUSTOM)["code"] == "unsupported_model"
    assert upload(gateway, 404, model="nothing")["code"] == "model_not_found"
    made = upload(gateway, model=BASE)
    error = say(gateway, 400, model=CUSTOM, voice=made["id"])
    assert (error["code"], error["param"]) == ("unsupported_voice", "voice")
    assert say(gateway, 400, voice=made["id"], ref_audio="data:,")["param"] == "ref_audio"
    with running(engines[1].url) as other:
        other.wait()
        assert upload(other, 400)["code"] == "unsupported_model"


def test_a_folder_that_cannot_be_written_is_told(gateway, engines, tmp_path):
    (tmp_path / "file").write_text("")
    with running(engines[0].url, voices_dir=tmp_path / "file/voices") as one:
        one.wait()
        assert upload(one, 503)["code"] == "voices_not_writable"
        assert uploaded(one) == []


def test_only_whole_voices_under_their_own_names_are_known(tmp_path):
    voices = Voices(tmp_path, 10)
    kept = voices.add("Ada", "yes", None, b"RIFF")
    other = kept.model_dump() | {"id": "../" + kept.id}
    (tmp_path / "voice_evil.json").write_text(json.dumps(other))
    (tmp_path / f"voice_{'1' * 24}.json").write_text(kept.model_dump_json())
    (tmp_path / f"voice_{'2' * 24}.json").write_text("{")
    (tmp_path / f"voice_{'3' * 24}.wav").write_text("half an upload")
    assert Voices(tmp_path, 10).all() == [kept]
    assert not voices.remove("../" + kept.id)
    assert voices.remove(kept.id)
    assert Voices(tmp_path, 10).all() == []
    assert not (tmp_path / f"{kept.id}.wav").exists()


def test_a_voice_of_another_gateway_is_known_at_once(tmp_path):
    one, two = Voices(tmp_path, 10), Voices(tmp_path, 10)
    assert two.all() == []
    made = one.add("Ada", "yes", None, b"RIFF")
    assert two.find("ada") == made
    one.remove(made.id)
    assert two.find(made.id) is None


def test_the_recording_is_resampled_mixed_and_kept_in_level():
    tone = (0.5 * np.sin(2 * np.pi * 440 * np.arange(96000) / 48000)).astype(np.float32)
    made = samples(recording.data_url(recording.to_wav(to_wav(tone, rate=48000, channels=2))))
    assert len(made) == pytest.approx(48000, abs=2)
    assert np.abs(made).max() == pytest.approx(0.5 * 32767, rel=0.02)
    with pytest.raises(UnreadableError, match="at least 1 s"):
        recording.to_wav(to_wav(voice(0.99)))
