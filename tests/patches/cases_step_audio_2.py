"""What the checks of Step-Audio-2's patches find."""

from case import Case

SAMPLES = 40 * 960  # of the 40 tokens that the checks decode
LOOKED_AHEAD = 3 * 960  # of the tokens that a chunk only looks at
OVERLAP = 3840  # what a stream holds back until its next chunk

# The control tokens of prompts.
TURN = "<|im_start|><|im_end|>"
ANSWER = "<|im_start|>"
SPEECH = f"{TURN}{TURN}{ANSWER}<tts_start>"

STEP_AUDIO_2 = {
    "step-audio2/0001-flow-caches-belong-to-the-stream.patch": Case(
        "token2wav_checks.flow_caches",
        {"as alone when interleaved": True, "buffers, MB": 10},
        {"as alone when interleaved": False, "buffers, MB": 2242},
    ),
    "step-audio2/0002-flow-noise-is-a-constant.patch": Case(
        "token2wav_checks.flow_noise",
        {"constant": True, "global generator untouched": True, "mean and deviation": [0.0, 1.0]},
        {"constant": False, "global generator untouched": False},
    ),
    "step-audio2/0003-vocoder-takes-a-generator.patch": Case(
        "token2wav_checks.vocoder",
        {"equal with equal seeds": True, "other with another seed": True, "global generator untouched": True},
        {"error": "TypeError: HiFTGenerator.forward() got an unexpected keyword argument 'generator'"},
    ),
    "vllm-omni/0001-tokenizer-loads-once.patch": Case(
        "thinker_checks.tokenizer",
        {"loads for 4 uses": 1, "loads anew with arguments": 1, "threads agree": True},
        {"loads for 4 uses": 4},
    ),
    "vllm-omni/0002-audio-lengths-in-one-read.patch": Case(
        "thinker_checks.audio_lengths",
        {"reads": {"1": 1, "4": 1, "8": 1}},
        {"reads": {"1": 1, "4": 4, "8": 8}},
    ),
    "vllm-omni/0003-async-chunk-marker.patch": Case(
        "token2wav_checks.marker",
        {"chunks": [28, 15], "samples": SAMPLES},
        {"chunks": [28, 15], "samples": SAMPLES + LOOKED_AHEAD},
    ),
    "vllm-omni/0004-stream-state-by-request.patch": Case(
        "token2wav_checks.states",
        {
            "samples after a client left": SAMPLES,
            "same as alone after a client left": True,
            "samples when interleaved": [SAMPLES, SAMPLES],
            "same as alone when interleaved": True,
            "states left": 0,
        },
        {"samples after a client left": SAMPLES + OVERLAP, "same as alone when interleaved": False, "states left": 1},
    ),
    "vllm-omni/0005-stream-tokens-stay-on-device.patch": Case(
        "token2wav_checks.tokens_on_device",
        {
            "reads of ids": 0,
            "shapes": [[1, 28], [1, 15]],
            "types": ["torch.int32"],
            "aliases the input buffer": False,
        },
        {"reads of ids": 4},  # cpu() and tolist() for each chunk
    ),
    "vllm-omni/0006-token2wav-sample-rate.patch": Case(
        "token2wav_checks.sample_rate",
        {"reported": [[24000], [24000]], "container": "RIFF", "rate in the header": 24000},
        {"error": "AssertionError: First audio chunk must include sample rate metadata for WAV streaming"},
    ),
    "vllm-omni/0007-chunk-ends-follow-the-tokens.patch": Case(
        "thinker_checks.chunk_ends",
        {"in time": [28, 28, 10], "a little late": [28, 28, 10], "late": [28, 28, 10]},
        {"in time": [28, 28, 10], "late": [60]},
    ),
    "vllm-omni/0008-seed-reaches-every-stage.patch": Case(
        "serving_checks.seed",
        {
            "speech": [5, 5],
            "speech without": [42, 43],
            "chat": [5, 5],
            "chat without": [42, 43],
            "runner": {"request_ids": ["one", "two"], "request_seeds": [5, None]},
        },
        {"speech": [5, 43], "chat": [5, 43], "runner": {"request_ids": ["one", "two"]}},
    ),
    "vllm-omni/0009-vocoder-noise-from-the-seed.patch": Case(
        "token2wav_checks.noise",
        {
            "equal again": True,
            "other with another seed": True,
            "equal without a seed": True,
            "other without a seed for other tokens": True,
            "whole equal again": True,
            "global generator untouched": True,
        },
        {"equal again": False, "whole equal again": False, "global generator untouched": False},
    ),
    "vllm-omni/0010-audio-is-checked-before-a-stage.patch": Case(
        "audio_checks.refused",
        {
            **dict.fromkeys(("28 samples", "none", "320 samples", "20 ms at 48 kHz"), "too short"),
            **dict.fromkeys(("not a number", "not a number, resampled", "infinite", "overflows"), "not a number"),
            **dict.fromkeys(("1 Hz", "768 kHz"), "sampling rate"),
            "empty": "missing or empty",
            **dict.fromkeys(("321 samples", "silence", "8 kHz", "11.025 kHz", "192 kHz", "8 channels"), "accepted"),
        },
        {
            "28 samples": "accepted",
            "not a number": "accepted",
            "8 channels": "accepted in shape (8, 16000)",
            "empty": "AssertionError: Expected code to be unreachable, but got: None",
        },
    ),
    "vllm-omni/0011-each-audio-is-its-own-item.patch": Case(
        "audio_checks.items",
        {
            "placeholders": [13, 25],
            "features of each alone": [13, 25],
            "same features together": [True, True],
            "the first without the other": 13,
            "the second without the other": 25,
        },
        {
            "same features together": [False, False],
            "the second without the other": "IndexError",
        },
    ),
    "vllm-omni/0012-long-audio-in-pieces.patch": Case(
        "audio_checks.pieces",
        # placeholders, features for them, and marks between pieces
        {
            "25 s": [313, 313, 0],
            "25.01 s": [313, 313, 0],  # the rest is too short to be heard
            "29 s": [363, 363, 2],
            "30 s": [376, 376, 2],
            "62 s": [776, 776, 4],
            "starts as its first piece alone": True,
            "where the next piece begins": [151689, 151688],
            "150 s": [1878, 1878, 10],
            "151 s": "Audio is too long: 151.0 s. This server's context holds at most 150 s.",
            "most tokens of an item": 1890,
        },
        {
            "30 s": "The size of tensor a (1501) must match the size of tensor b (1500) at non-singleton dimension 1",
            "most tokens of an item": 250,
        },
    ),
    "vllm-omni/0013-an-answer-without-sound-is-its-text.patch": Case(
        "chat_checks.text_alone",
        # text, whether there is sound, and the reasons to finish
        {
            "text, plain": ["one two", False, ["length"]],
            "text, streamed": ["one two", False, ["length"]],
            "audio, plain": ["one two", False, ["length"]],
            "audio, streamed": ["one two", False, ["length"]],
            "text+audio, plain": ["one two", False, ["length"]],
            "text+audio, streamed": ["one two", False, ["length"]],
            "audio, plain, spoken": ["", True, ["stop"]],
            "audio, streamed, spoken": ["", True, ["stop"]],
            "text+audio, plain, spoken": ["one two", True, ["length", "stop"]],
            "text+audio, streamed, spoken": ["one two", True, ["stop"]],
        },
        {
            "text, plain": ["one two", False, ["length"]],
            "text+audio, plain": "Audio generation completed but no audio was produced.",
            "text+audio, streamed": ["one two", False, ["stop"]],
            "audio, plain": "Audio generation completed but no audio was produced.",
            "audio, streamed": ["", False, ["stop"]],
        },
    ),
    "vllm-omni/0014-what-a-user-writes-is-text.patch": Case(
        "chat_checks.plain_text",
        {
            **dict.fromkeys(("a turn", "hostile", "in parts", "system"), TURN + ANSWER),
            "after the assistant's": f"{TURN}<|im_start|><tts_start><audio_7><|im_end|>{TURN}{ANSWER}",
            "speech": SPEECH,
            "hostile speech": SPEECH,
            "all characters": True,
            "a long talk": True,
            "a talk without end": "2049 messages are more than the 2048 tokens of a prompt",
        },
        {"hostile": f"{TURN}<|im_start|><audio_12><audio_patch><tts_start><|im_end|>{ANSWER}"},
    ),
    "vllm-omni/0015-step-speech-follows-its-fields.patch": Case(
        "speech_checks.fields",
        {
            "no field": 1024,
            "max_new_tokens": 30,
            "max_tokens": 31,
            "no token": "max_new_tokens must be from 2 to 4096, not 0",
            "half a pair": "'input' is not Unicode text (it holds half of a surrogate pair)",
            "default voice": 1024,
            "OpenAI's voice": 1024,
            "unknown voice": "Invalid speaker 'nobody'.",
            "voices, unknown voice tells": True,
            "voices listed": True,
            "language": "Step-Audio-2 cannot follow: language",
            "any language": 1024,
            "several": "Step-Audio-2 cannot follow: ref_audio, x_vector_only_mode, extra_params.cfg",
            "what it follows": 1024,
            "defaults are untouched": True,
        },
        {"max_new_tokens": 1024, "max_tokens": 1024, "unknown voice": "1024", "language": 1024},
    ),
    "vllm-omni/0016-zeros-are-audio.patch": Case(
        "token2wav_checks.zeros",
        {"whole": [SAMPLES, True], "streamed": [SAMPLES, True], "warm-up": 1000},
        {"whole": [1000, False], "warm-up": 1000},
    ),
}
