"""The cases, and the patches of which none is."""

from firstword.bench.gpu_check import flow, qwen3_tts, runner, step_audio_2
from firstword.bench.gpu_check.case import Case

CASES: dict[str, Case] = {
    case.name: case for case in (*step_audio_2.CASES, *flow.CASES, *runner.CASES, *qwen3_tts.CASES)
}

# Patches of what the device does, of which no function is cut, and why.
NOT_CUT = {
    "step-audio2/0002-flow-noise-is-a-constant.patch": "other noise than the release's, by intent",
    "vllm-omni/0009-vocoder-noise-from-the-seed.patch": "other noise than the release's, by intent",
    "vllm-omni/0046-token2wav-takes-many.patch": "the release takes one request in a step: nothing to stand beside it",
    "vllm-omni/0051-texts-are-tokenized-together.patch": "needs the tokenizer of transformers",
}
