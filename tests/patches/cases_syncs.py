"""Cases of the patches for many requests at once: patch -> check, facts with the series, facts without the patch."""

from typing import Any

TOGETHER = {
    **dict.fromkeys(("one", "two", "short", "whole"), True),
    "failed": {"1": True},
    "of the failed": 0,
    "failed later": 0,
    "states left": ["stays"],
}

SYNC_CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "vllm-omni/0045-one-copy-for-a-step.patch": (
        "batch_checks.one_copy",
        {"reads": 1, "equal": True, "own memory": True},
        {"reads": 4, "equal": True},
    ),
    "vllm-omni/0046-token2wav-takes-many.patch": (
        "batch_checks.many",
        TOGETHER,
        {
            "error": "RuntimeError: Token2Wav async_chunk only supports batch=1, got 3. "
            "Batch>1 requires framework support for batch_req_ids."
        },
    ),
    "vllm-omni/0047-streams-in-flight-are-bounded.patch": (
        "batch_checks.bounded",
        {"keeps state": [False, True]},
        {"keeps state": [False, False]},
    ),
    "vllm-omni/0048-each-audio-token-is-read-once.patch": (
        "batch_checks.reading",
        {"all tokens, each chunk looking ahead": True, "reads for each token": 1},
        {"all tokens, each chunk looking ahead": True, "reads for each token": 543},
    ),
    "vllm-omni/0049-a-voice-is-prepared-once.patch": (
        "batch_checks.prepared",
        {"prompt heard": 1, "equal again": True, "caches are only read": True},
        {"prompt heard": 2, "equal again": True},
    ),
    "vllm-omni/0050-vocoder-weights-are-folded.patch": (
        "batch_checks.prepared",
        {"made in each chunk": 0},
        {"made in each chunk": 82},
    ),
    "vllm-omni/0051-texts-are-tokenized-together.patch": (
        "reading_checks.tokenized",
        {"calls": 2, "used": True, "the same ids": True},
        {"calls": 2, "used": False},
    ),
    "vllm-omni/0052-the-host-knows-a-recordings-sizes.patch": (
        "reading_checks.reference",
        {"a new recording": 2, "the same again": 1},
        {"a new recording": 35, "the same again": 1},
    ),
    "vllm-omni/0053-artifacts-stay-on-the-device.patch": (
        "reading_checks.reference",
        {"a new recording": 2, "the same again": 1},
        {"a new recording": 4, "the same again": 3},
    ),
    "vllm-omni/0054-prompts-stay-on-the-device.patch": (
        "reading_checks.reference",
        {"a new recording": 2, "the same again": 1},
        {"a new recording": 4, "the same again": 3},
    ),
    "vllm-omni/0055-counts-stay-on-the-host.patch": (
        "reading_checks.outputs",
        {"one step": 2},
        {"one step": 4},
    ),
    "step-audio2/0004-vocoder-does-not-ask-the-device.patch": (
        "reading_checks.inverse_stft",
        {"reads": 0, "equal": True},
        {"reads": 1, "equal": True},
    ),
}
