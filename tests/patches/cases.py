"""What each patch's check finds with the series, and without the patch."""

from dataclasses import dataclass, field
from typing import Any

from cases_syncs import SYNC_CASES

SAMPLES = 40 * 960  # of the 40 tokens that the checks decode
LOOKED_AHEAD = 3 * 960  # of the tokens that a chunk only looks at
OVERLAP = 3840  # what a stream holds back until its next chunk
FAILED = {  # the second of three requests in a step
    "step": "went on",
    "the others' rows": [[7.0], [7.0]],
    "decoded in the next step": ["one", "three"],
    "ended": {"two": "error"},
}


def _each_form(answer: str) -> dict[str, str]:
    return dict.fromkeys(("plain", "raw", "events"), answer)


NO_SOUND = _each_form("500 InternalServerError: Speech generation failed: The engine produced no audio")

KINDS_WITHOUT_CLONING = ("custom_voice", "voice_design")
WAYS_TO_CLONE = ("upload", "embedding", "voice")
WRONG_EXTRAS = ("a word", "true", "a list", "below", "above", "not a number", "endless", "half")
WRONG_EXTRAS += ("the engine's own", "a seed of the talker")

SPEECH_ROUTES = sorted(
    f"/v1/audio/{path}" for path in ("speech", "speech/batch", "speech/stream", "voices", "voices/{name}")
)
JSON_ROUTES = ("/v1/chat/completions", "/v1/audio/speech", "/v1/audio/speech/batch")
TEXT_ROUTES = ["/v1/chat/completions"]
BAD_PARAMS = ("a word", "a word for the seed", "below", "unknown", "the engine's own", "not followed", "no list")

ODD_NAMES = ("a folder", "another folder", "long", "spaces", "dots")

SHARED = {  # a KV cache, by requests that come and go
    "ended": True,
    "of all lengths": True,
    "together, with room": 8,
    "preempted or waited, with room": False,
    "blocks left": 0,
}
PREEMPTING = {"preempted": True, "some waited": False}

# The control tokens of prompts.
TURN = "<|im_start|><|im_end|>"
ANSWER = "<|im_start|>"
SPEECH = f"{TURN}{TURN}{ANSWER}<tts_start>"


@dataclass(frozen=True)
class Case:
    check: str
    right: dict[str, Any] = field(default_factory=dict)
    wrong: dict[str, Any] = field(default_factory=dict)


CASES = {
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
        },
        {"hostile": f"{TURN}<|im_start|><audio_12><audio_patch><tts_start><|im_end|>{ANSWER}"},
    ),
    "vllm-omni/0015-step-speech-follows-its-fields.patch": Case(
        "speech_checks.fields",
        {
            "no field": 1024,
            "max_new_tokens": 30,
            "max_tokens": 31,
            "no token": "max_new_tokens must be from 1 to 4096, not 0",
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
    "vllm-omni/0017-reference-known-by-its-recording.patch": Case(
        "cloning_checks.references",
        {
            "requests": 48,
            "failed": 0,
            "another's voice": 0,
            "failed with uploads": 0,
            "another's voice with uploads": 0,
        },
        {"failed": 12, "another's voice": 15, "another's voice with uploads": 8},
    ),
    "vllm-omni/0018-reference-travels-with-its-request.patch": Case(
        "cloning_checks.many",
        {
            "failed": 0,
            "same after the cache was full": True,
            "together": [True, True],
            "spare places in the prompt": [0] * 7,
            "bytes a sample": 4,
        },
        {"failed": 1, "same after the cache was full": False},
    ),
    "vllm-omni/0019-failed-prompt-fails-its-request.patch": Case(
        "failing_checks.prompt",
        {
            "ours": FAILED
            | {"told": [["two", "The prompt could not be built: RuntimeError('no such frame')", None], ["two"]]},
            "the client's": FAILED | {"told": [["two", "too short", 422], ["two"]]},
        },
        {"ours": {"step": "raised RuntimeError"}, "the client's": {"step": "raised OmniClientError"}},
    ),
    "vllm-omni/0020-lost-chunk-fails-its-request.patch": Case(
        "failing_checks.chunk",
        {
            "sent": [[False, False], [True, True]],
            "received": ["A chunk for stage 1 could not be made: ValueError('ragged frames')", [0]],
            "ended": {"two": "error"},
            "decoding": "went on",
            "samples": [3840, 0, 0, 0],
            "same as alone": True,
            "failed": [1, 2],
        },
        {"sent": [[False, False], [False, False], [True, False]], "ended": {}, "decoding": "raised ValueError"},
    ),
    "vllm-omni/0021-reference-audio-is-checked.patch": Case(
        "cloning_checks.bad_recordings",
        {
            **dict.fromkeys(("nothing", "not audio", "cut header", "1 sample", "no sample", "an hour"), "refused"),
            **dict.fromkeys(("NaN", "infinite", "too loud", "500 Hz", "upload"), "refused"),
            **dict.fromkeys(("silence", "8 channels", "192 kHz"), "spoken"),
            "the voice of that name": "kept",
        },
        {
            "cut header": "raised LibsndfileError",
            **dict.fromkeys(("NaN", "infinite", "too loud", "500 Hz"), "broken in stage 0"),
            "upload": "accepted",
        },
    ),
    "vllm-omni/0022-failures-have-their-status.patch": Case(
        "failing_checks.told",
        {
            "fails": _each_form("500 InternalServerError: Speech generation failed: stage 0 failed"),
            "refuses": _each_form("422 BadRequestError: too short"),
            "says nothing": NO_SOUND
            | {"plain": "500 InternalServerError: Speech generation failed: No output generated from the model."},
            "an empty sound": NO_SOUND,
            "fails after a sound": {
                "plain": "500 InternalServerError: Speech generation failed: stage 1 failed",
                "raw": "200, 1 parts, then broken",
                "events": "200, delta, delta, error",
            },
            "speaks": {"plain": "200, 1964 bytes", "raw": "200, 1 parts", "events": "200, delta, delta, done"},
        },
        {
            "fails": {
                "plain": "400 BadRequestError: Speech generation failed: stage 0 failed",
                "raw": "200, 0 parts, then broken",
                "events": "200, error",
            },
            "an empty sound": {"plain": "200, 44 bytes", "raw": "200, 1 parts", "events": "200, delta, delta, done"},
        },
    ),
    "vllm-omni/0023-cloning-fields-are-checked.patch": Case(
        "cloning_checks.combinations",
        {
            "requests": 1728,
            "spoken": 238,
            "ended stage 0": 0,
            "places left over": 0,
            **{f"{kind} {way}": "refused" for kind in KINDS_WITHOUT_CLONING for way in WAYS_TO_CLONE},
        },
        {
            "ended stage 0": 72,
            "places left over": 31,
            **{f"{kind} {way}": "accepted" for kind in KINDS_WITHOUT_CLONING for way in WAYS_TO_CLONE},
        },
    ),
    "vllm-omni/0024-text-is-speakable-text.patch": Case(
        "text_checks.texts",
        {
            **dict.fromkeys(("empty", "spaces", "punctuation", "emoji", "control characters", "zero width"), "refused"),
            **dict.fromkeys(("special tokens", "special tokens and spaces", "half a surrogate pair"), "refused"),
            **dict.fromkeys(("a word", "a digit", "Chinese", "Arabic", "emoji and a word"), "spoken"),
            **dict.fromkeys(("control characters and a word", "special tokens and a word"), "spoken"),
            "in the other texts": [0, 0],
        },
        {
            **dict.fromkeys(("punctuation", "emoji", "control characters", "zero width"), "spoken"),
            "special tokens and a word": "spoken, with 2 special tokens",
            "half a surrogate pair": "breaks the tokenizer",
            "in the other texts": [2, 1],
        },
    ),
    "vllm-omni/0025-speech-is-bounded-by-its-text.patch": Case(
        "text_checks.bound",
        {
            "a word": 141,
            "a sentence": 501,
            "digits": 381,
            "Chinese": 221,
            "a long text": 2048,
            "by the request": 219,
            "switched off": 2048,
            "max_new_tokens": 1500,
            "the shared defaults": 2048,
            "cut off": ["error", "The speech did not end w"],
            "cut off at max_new_tokens": ["length", ""],
        },
        {"a word": 2048, "a sentence": 2048, "max_new_tokens": 1500, "cut off": ["length", ""]},
    ),
    "vllm-omni/0026-extra-params-are-checked.patch": Case(
        "text_checks.extra_params",
        {
            "good": [0.5, 0.9, 20],
            "none": "taken",
            **dict.fromkeys(WRONG_EXTRAS, "refused"),
        },
        dict.fromkeys(WRONG_EXTRAS, "taken"),
    ),
    "vllm-omni/0027-chat-follows-its-fields.patch": Case(
        "speech_checks.chat_fields",
        {
            "max_tokens": {"max_tokens": 7, "temperature": 0.5},
            "max_completion_tokens": {"max_tokens": 8},
            "penalty": {"repetition_penalty": 1.5, "min_p": 0.1},
            "OpenAI's defaults": {},
            "several": "This server cannot follow: n, logprobs, top_logprobs, logit_bias, response_format, "
            "truncate_prompt_tokens",
            "none": "This server cannot follow: n",
        },
        {
            "max_tokens": {"max_tokens": 7, "temperature": 0.5},
            "max_completion_tokens": {},
            "penalty": {},
            "several": {},
        },
    ),
    "vllm-omni/0028-a-model-serves-its-routes.patch": Case(
        "route_checks.routes",
        {
            "tts": SPEECH_ROUTES,
            "speech": sorted([*(path for path in SPEECH_ROUTES if not path.endswith("}")), *TEXT_ROUTES]),
            "asr": TEXT_ROUTES,
            **{key: [404, "NotFoundError", True] for key in ("tts, closed", "speech, closed", "asr, closed")},
            **dict.fromkeys(("tts, server", "speech, server", "asr, server"), True),
        },
        {"tts, closed": [500, None, False]},
    ),
    "vllm-omni/0029-failed-submission-fails-its-request.patch": Case(
        "route_checks.submission",
        {"taken": ["one"], "told": [["two", 400], ["three", None]]},
        {"error": "OverflowError: can't serialize ints > 2**64 - 1"},
    ),
    "vllm-omni/0030-sampling-params-are-checked.patch": Case(
        "route_checks.sampling_params",
        {"good": [[5, 1, ["a"], 3], [9, 1, [], None]], **dict.fromkeys(BAD_PARAMS, "refused")},
        {"a word": "raised TypeError", "a word for the seed": "taken", "the engine's own": "taken"},
    ),
    "vllm-omni/0031-gauges-are-read-when-asked.patch": Case(
        "transfer_checks.gauges",
        {"one runs": [1.0, 0.0], "none runs": [0.0, 0.0]},
        {"one runs": [1.0, 0.0], "none runs": [1.0, 0.0]},
    ),
    "vllm-omni/0032-segments-have-safe-names.patch": Case(
        "transfer_checks.names",
        {**dict.fromkeys(("plain", *ODD_NAMES), True), "opened outside": 0, "left": 0},
        {"plain": True, "a folder": False, "another folder": False, "long": False},
    ),
    "vllm-omni/0033-aborted-requests-leave-nothing.patch": Case(
        "transfer_checks.aborted",
        {"files": 0, "sender": 0, "receiver": 0, "a stop string ends both": True},
        {"a stop string ends both": False},
    ),
    "vllm-omni/0034-text-alone-sends-no-chunk.patch": Case(
        "transfer_checks.text_alone",
        {"sent": ["sound_0_0", "unknown_0_0"]},
        {"sent": ["aborted_0_0", "sound_0_0", "text_0_0", "unknown_0_0"]},
    ),
    "vllm-omni/0035-transfers-are-forgotten.patch": Case(
        "transfer_checks.forgotten",
        {"names": True, "ids": 0},
        {"names": False, "ids": 1000},
    ),
    "vllm-omni/0036-a-body-is-an-object.patch": Case(
        "route_checks.bodies",
        dict.fromkeys(JSON_ROUTES, [400] * 5),
        {"/v1/chat/completions": [500, 500, 500, 400, 500]},
    ),
    "vllm-omni/0037-a-chunk-without-room-ends-its-request.patch": Case(
        "transfer_checks.lost", {"refused": True, "told": True}, {"refused": False, "told": None}
    ),
    "vllm-omni/0038-a-batch-tells-what-failed.patch": Case(
        "route_checks.batch",
        {
            "a+b": [200, None, 2],
            "a+": [400, "1 of 2 items failed: items[1]: nothing to speak", 1],
            "a+broken": [500, "1 of 2 items failed: items[1]: stage 0 failed", 1],
            "+broken": [500, "2 of 2 items failed: items[0]: nothing to speak; items[1]: stage 0 failed", 0],
            "+": [400, "2 of 2 items failed: items[0]: nothing to speak; items[1]: nothing to speak", 0],
        },
        {"a+b": [200, None, 2], "a+": [200, None, 1], "+broken": [200, None, 0]},
    ),
    "vllm-omni/0039-parameters-are-whole-before-a-stage.patch": Case(
        "route_checks.parameters",
        {"whole": "submitted", "torn": "min_tokens must be less than or equal to max_tokens=1, got 2."},
        {"whole": "submitted", "torn": "submitted"},
    ),
    "vllm-omni/0040-stages-at-rest-say-so.patch": Case(
        "transfer_checks.rest", {"with requests": [2], "without": [2, 0]}, {"without": [2]}
    ),
    "vllm-omni/0041-talker-requests-are-never-preempted.patch": Case(
        "scheduling_checks.sharing",
        {"talker": SHARED | {"preempted": False, "some waited": True}, "thinker": SHARED | PREEMPTING},
        {"talker": SHARED | PREEMPTING, "thinker": SHARED | PREEMPTING},
    ),
}
CASES |= {name: Case(*case) for name, case in SYNC_CASES.items()}
