"""What the checks of Qwen3-TTS's patches find, and of those for speech of either model."""

from case import Case

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

QWEN3_TTS = {
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
    "vllm-omni/0058-talker-chunks-follow-the-frames.patch": Case(
        "talker_checks.chunk_ends",
        {"in time": [1, 25, 16], "a frame late": [1, 25, 16], "late": [1, 25, 16]},
        {"in time": [1, 25, 16], "a frame late": [1, 25, 15, 16], "late": [1, *range(1, 26), *range(1, 17)]},
    ),
}
