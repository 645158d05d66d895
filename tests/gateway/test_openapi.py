"""Requests made from ``/openapi.json``, before real engines: none is a failure, and the engines live on."""

from gateway_process import KEY

from conftest import RECOGNITION, SPEECH
from firstword.acceptance.judge import judge_speech
from schemathesis_run import pinned, run

TEXT = "A word about the weather, please."
# Bounds the run on a busy machine; the order of what is asked is always the same.
SECONDS = "45"


def test_no_request_made_from_it_is_a_failure_or_ends_a_process(stack, gateway, tmp_path):
    before = [engine.processes() for engine in stack.engines]
    document = gateway.http.get("/openapi.json").json()
    hearing = {name: [RECOGNITION[0], "whisper-1"] for name in ("transcriptions", "translations")}
    speaking = {"speech": [SPEECH[0], RECOGNITION[0], "tts-1"], "completions": [RECOGNITION[0]], "voices": [SPEECH[0]]}
    told = run(
        pinned(document, **speaking, **hearing),
        gateway.url,
        KEY,
        tmp_path,
        "--max-examples",
        "3",
        "--max-time",
        SECONDS,
    )
    operations = sum(map(len, document["paths"].values()))
    assert f"Operations:       {operations} selected / {operations} total" in told
    assert [engine.processes() for engine in stack.engines] == before
    assert gateway.ready().status_code == 200
    with gateway.client(SPEECH[0]) as client:
        assert judge_speech(client.speech(TEXT, voice="ryan").body, fmt="wav", text=TEXT).ok
