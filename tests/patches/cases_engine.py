"""What the checks of the patches between client and stages find: routes, parameters, transfers, scheduling."""

from case import Case

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
IN_ORDER = ["0 goes on", "1 ends it"]
PREEMPTING = {"preempted": True, "some waited": False}

ENGINE = {
    "vllm-omni/0027-chat-follows-its-fields.patch": Case(
        "speech_checks.chat_fields",
        {
            "max_tokens": {"max_tokens": 7, "temperature": 0.5},
            "max_completion_tokens": {"max_tokens": 8},
            "penalty": {"repetition_penalty": 1.5, "min_p": 0.1},
            "OpenAI's defaults": {},
            "several": "This server cannot follow: n, logprobs, top_logprobs, logit_bias, bad_words, "
            "allowed_token_ids, response_format, truncate_prompt_tokens",
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
    "vllm-omni/0042-a-chunk-that-never-comes-ends-its-request.patch": Case(
        "transfer_checks.missing",
        {
            "first": True,
            "before its end": False,
            "after its end": True,
            "told": "A chunk for stage 1 was lost: 0.2 s after the end of stage 0 it is still missing",
            "queued": False,
            "files": 0,
            "receiver": 0,
            "stage 1 is told": ["upstream_ended spoken", "upstream_ended gone"],
            "and takes note of": ["spoken"],
        },
        {"first": True, "after its end": False, "stage 1 is told": []},
    ),
    "vllm-omni/0043-a-speech-session-ends-with-its-client.patch": Case(
        "socket_checks.sessions",
        {
            "plain": ["audio.start", "audio.done"],
            "streamed": ["audio.start", "audio.done"],
            "given up": 2,
            "aborted": ["one"],
            "spoken": ["Hi.", "Hi."],
            "bytes": ["WebSocket messages must be text", "session.done"],
            **{key: ["Invalid JSON message", "session.done"] for key in ("no JSON", "too deep", "an endless number")},
            "a list": ["WebSocket messages must be JSON objects", "session.done"],
            "half a pair": ["The input is not Unicode text (half of a surrogate pair)", "session.done"],
            "an unknown type": ["Unknown message type: ?", "session.done"],
            "endless text": ["The input of this utterance is too large"],
            "idle": ["session.done", "Idle timeout: no message received"],
            "silent": ["Timeout waiting for session.config"],
            "wrong order": ["Expected session.config, got: input.text"],
        },
        {
            "plain": ["audio.start", "audio.done", "went on"],
            "streamed": ["audio.start", "audio.done", "went on"],
            "aborted": [],
            "an unknown type": ["session.done"],
            "endless text": ["session.done"],
        },
    ),
    "vllm-omni/0044-a-cache-holds-the-longest-request.patch": Case(
        "scheduling_checks.longest",
        {
            "its size": "served",
            "one block less": "A request of max_model_len (240) needs 15 blocks of KV cache and there are 14",
        },
        {"its size": "served", "one block less": "waits for ever"},
    ),
    "vllm-omni/0056-answers-come-in-the-order-of-stages.patch": Case(
        "transfer_checks.last_words",
        {"audio, in order": IN_ORDER, "audio, early": IN_ORDER, "both, early": IN_ORDER},
        {"audio, in order": IN_ORDER, "audio, early": ["1 ends it"], "both, early": ["1 goes on", "0 ends it"]},
    ),
    "vllm-omni/0057-parked-requests-are-the-schedulers.patch": Case(
        "transfer_checks.parked",
        {"a client leaves": [], "the scheduler's own": ["scheduler"]},
        {"a client leaves": ["receiver"], "the scheduler's own": ["scheduler"]},
    ),
}
