"""What the patches for many requests at once leave as it was: bytes, and what ends a stage."""

import pytest
from forks import Run


@pytest.mark.parametrize(
    "patch",
    ["vllm-omni/0049-a-voice-is-prepared-once.patch", "vllm-omni/0050-vocoder-weights-are-folded.patch"],
)
def test_the_audio_is_the_same_without_the_patch(run: Run, patch: str) -> None:
    check = "batch_checks.prepared"
    assert run(check)["audio"] == run(check, without=patch)["audio"]


def test_what_fails_for_all_ends_the_stage(run: Run) -> None:
    assert run("batch_checks.lost_device") == {"device": "AcceleratorError", "voice": "FileNotFoundError"}


def test_what_fails_for_one_ends_its_request(run: Run) -> None:
    right = {
        "first": [0],
        "amid a stream": [0],
        "too short": [0, "The audio tokens could not be decoded"],
        "another is decoded": True,
    }
    assert run("token2wav_checks.failures") == right
    without = run("token2wav_checks.failures", without="vllm-omni/0046-token2wav-takes-many.patch")
    assert without["amid a stream"] == without["too short"] == "raised RuntimeError"
