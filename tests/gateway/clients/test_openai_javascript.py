"""OpenAI's JavaScript SDK, with only ``baseURL`` and ``apiKey`` changed; what it gets is judged here."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from gateway_process import GatewayProcess

from conftest import KEY, RECOGNITION, SPEECH
from firstword.acceptance.asking import Server
from firstword.acceptance.judge import judge_speech, judge_transcript
from firstword.acceptance.recording import vowels
from firstword.native import environments

SCENARIOS = Path(__file__).parent / "javascript"
TEXT = "The quick brown fox jumps over the lazy dog."
SECONDS = 120


class JavaScript:
    """Runs scenarios in a folder where ``openai`` can be imported; what they save is there too."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "node_modules").symlink_to(environments.javascript() / "node_modules")
        for scenario in SCENARIOS.glob("*.mjs"):
            shutil.copy(scenario, folder)
        (folder / "vowels.wav").write_bytes(vowels())

    def start(self, script, gateway, *words):
        models = {"speaker": SPEECH[0], "listener": RECOGNITION[0]}
        ours = {"GATEWAY": f"{gateway.url}/v1", "GATEWAY_KEY": KEY, "GATEWAY_MODELS": json.dumps(models)}
        command = ["node", script, *words]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command, cwd=self.folder, env=os.environ | ours, text=True, **pipes)

    def run(self, theme, gateway):
        """Return what each scenario of a theme gave."""
        with self.start("run.mjs", gateway, theme, str(self.folder)) as node:
            try:
                told, complaints = node.communicate(timeout=SECONDS)
            finally:
                node.kill()
        assert node.returncode == 0, complaints
        return json.loads(told)


@pytest.fixture(scope="module")
def javascript(tmp_path_factory):
    return JavaScript(tmp_path_factory.mktemp("javascript"))


@pytest.fixture(scope="module")
def told(javascript, gateway):
    """Return what a scenario gave; the scenarios of a theme run at once, the first time that one is asked for."""
    themes = {}

    def told(theme, scenario):
        if theme not in themes:
            themes[theme] = javascript.run(theme, gateway)
        return themes[theme][scenario]

    return told


@pytest.fixture
def answered(told):
    def answered(theme, scenario):
        found = told(theme, scenario)
        assert "failure" not in found, found
        return found["answer"]

    return answered


def judge(verdict):
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize("fmt", ["mp3", "opus", "aac", "flac", "wav", "pcm", "byDefault"])
def test_speech(answered, javascript, fmt):
    answer = answered("speech", fmt)
    sound = (javascript.folder / answer["name"]).read_bytes()
    judge(judge_speech(sound, fmt=fmt.replace("byDefault", "mp3"), text=TEXT, content_type=answer["kind"]))


def test_speech_as_it_comes(answered, javascript):
    answer = answered("speech", "streamed")
    assert answer["pieces"] > 2
    judge(judge_speech((javascript.folder / answer["name"]).read_bytes(), fmt="opus", text=TEXT))


def test_speech_as_events(answered, javascript):
    answer = answered("speech", "events")
    assert answer["deltas"] > 2
    assert answer["last"]["type"] == "speech.audio.done"
    assert answer["last"]["usage"]["output_tokens"] > 0
    judge(judge_speech((javascript.folder / answer["name"]).read_bytes(), fmt="pcm", text=TEXT))


def test_speech_with_everything_that_it_can_be_told(answered, javascript):
    answer = answered("speech", "everything")
    judge(judge_speech((javascript.folder / answer["name"]).read_bytes(), fmt="flac", text=TEXT, speed=2.0))


def test_transcription_in_each_shape(answered):
    plain = answered("recognition", "json")["text"]
    judge(judge_transcript(plain, "stop"))
    assert answered("recognition", "json")["usage"] == {"type": "duration", "seconds": 3}
    assert isinstance(answered("recognition", "text"), str)
    assert answered("recognition", "srt").startswith("1\n00:00:00,000 --> ")
    assert answered("recognition", "vtt").startswith("WEBVTT\n\n00:00:00.000 --> ")
    verbose = answered("recognition", "verbose")
    assert verbose["language"] == "english"
    assert verbose["segments"][0]["text"] == verbose["text"]
    assert verbose["segments"][-1]["end"] == pytest.approx(verbose["duration"])


def test_transcription_streamed(answered):
    *deltas, done = answered("recognition", "streamed")
    assert len(deltas) > 1
    assert {event["type"] for event in deltas} == {"transcript.text.delta"}
    assert done["type"] == "transcript.text.done"
    assert done["text"] == "".join(event["delta"] for event in deltas)
    assert (done["usage"]["type"], done["finish_reason"]) == ("tokens", "stop")
    assert min(done["usage"]["input_tokens"], done["usage"]["output_tokens"]) > 0


def test_translation(answered):
    judge(judge_transcript(answered("recognition", "translated")["text"], "stop"))
    assert answered("recognition", "translatedVerbosely")["task"] == "translate"


def test_chat_with_audio_in(answered):
    plain = answered("conversation", "plain")
    judge(judge_transcript(plain["content"], plain["reason"]))
    assert len(answered("conversation", "streamed")) > 2


def test_chat_with_audio_in_and_out(answered, javascript):
    answer = answered("conversation", "aloud")
    assert answer["content"] is None
    assert answer["reason"]
    judge(judge_speech((javascript.folder / answer["name"]).read_bytes(), fmt="mp3", text=None))


def test_chat_with_audio_in_and_out_streamed(answered, javascript):
    answer = answered("conversation", "aloudStreamed")
    assert answer["pieces"] > 1
    assert answer["reason"]
    assert "<audio_" not in answer["transcript"]
    judge(judge_speech((javascript.folder / answer["name"]).read_bytes(), fmt="pcm", text=None))


def test_models_and_voices(answered):
    assert [model["id"] for model in answered("catalogue", "models")] == [SPEECH[0], RECOGNITION[0]]
    meant = {model["id"]: model["alias_of"] for model in answered("catalogue", "aliases")}
    assert meant == {
        **dict.fromkeys(("tts-1", "tts-1-hd", "gpt-4o-mini-tts", "tts-1-es"), SPEECH[0]),
        **dict.fromkeys(("whisper-1", "gpt-4o-transcribe"), RECOGNITION[0]),
    }
    assert {"ryan", "vivian"} <= {voice["id"] for voice in answered("catalogue", "voices")["voices"]}
    assert answered("catalogue", "requestId") == "mine-2"


@pytest.mark.parametrize(
    ("scenario", "kind", "code", "param"),
    [
        ("noSuchModel", "NotFoundError", "model_not_found", "model"),
        ("noSuchModelToRetrieve", "NotFoundError", "model_not_found", "model"),
        ("noSuchVoice", "BadRequestError", None, None),
        ("noSuchField", "BadRequestError", "unknown_parameter", "loudness"),
        ("noRecording", "BadRequestError", "unsupported_parameter", "include"),
        ("wrongPlace", "BadRequestError", "unsupported_model", "model"),
        pytest.param("wrongKey", "AuthenticationError", "invalid_api_key", None, marks=pytest.mark.own_gateway),
    ],
)
def test_errors_are_the_sdks_own(told, scenario, kind, code, param):
    failure = told("errors", scenario)["failure"]
    assert failure["class"] == kind, failure
    assert failure["type"] == "invalid_request_error"
    if code:
        assert (failure["code"], failure.get("param")) == (code, param)


@pytest.mark.own_gateway
def test_too_much_is_told_and_tried_again(javascript, stack):
    narrow = {"CONCURRENCY": "1", "QUEUE": "0"}
    with GatewayProcess(stack.speech.run_dir, [stack.speech], "narrow-gateway", **narrow) as gateway:
        gateway.wait(200)
        answer = javascript.run("limits", gateway)["together"]["answer"]
    assert answer["refused"]["class"] == "RateLimitError"
    assert answer["refused"]["code"] == "rate_limit_exceeded"
    assert int(answer["refused"]["wait"]) >= 1
    assert min(answer["sizes"]) > 0


@pytest.mark.own_gateway
def test_an_aborted_request_ends_the_engines_work(javascript, stack, gateway):
    mark = stack.speech.log_size()
    with javascript.start("leaving.mjs", gateway) as node:
        try:
            assert int(node.stdout.readline()) > 0
            assert node.stdout.readline().strip() == "AbortError"
            # It lives on: what ends the work is that it closed its connection.
            stack.speech.wait_for_log("[Orchestrator] Aborted request(s)", mark, seconds=2)
            assert node.poll() is None
            assert Server(stack.speech.url).load().requests == 0
            node.communicate(timeout=10)
        finally:
            node.kill()
