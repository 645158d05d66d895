"""Request bodies by property: a good one in which up to three fields are something else."""

import base64

from hypothesis import strategies as st

from hostile import corpus
from hostile.recordings import recordings

SOUNDS = {name: base64.b64encode(data).decode() for name, data in recordings().items()}
REFERENCES = [
    *(f"data:audio/wav;base64,{sound}" for sound in SOUNDS.values()),
    *(SOUNDS["good"], "data:audio/wav;base64,@@@", "data:text/plain,hello", "data:,", "data:"),
    *(
        "file:///etc/passwd",
        "/etc/passwd",
        "http://127.0.0.1:1/a.wav",
        "http://169.254.169.254/",
        "ftp://x/y",
        "x" * 9999,
    ),
    ["data:audio/wav;base64," + SOUNDS["good"]] * 3,
]
TEXT = st.one_of(st.sampled_from(list(corpus.TEXTS.values())), st.text(max_size=80))
ANYTHING = st.sampled_from(corpus.ANYTHING)
FEW = st.sampled_from([2, 4, 8])


def or_anything(strategy):
    """Mostly a value of its kind, now and then one of another."""
    return st.one_of(strategy, strategy, strategy, ANYTHING)


NUMBER = or_anything(st.sampled_from(corpus.NUMBERS))
FLAG = or_anything(st.booleans())
EMBEDDINGS = st.one_of(
    st.lists(st.sampled_from([0.0, 1.0, 1e39, float("nan"), -1e308]), max_size=5),
    st.sampled_from([1, 2, 32, 64, 1024, 2048, 8192, 8193]).map(lambda n: [0.01] * n),
    st.sampled_from([[[]], [[0.1] * 64, [0.1]], ["a"] * 64, [None]]),
)
SPEECH = {
    "input": or_anything(TEXT),
    "model": or_anything(st.sampled_from(["tts-1", "../x", ""])),
    "voice": or_anything(st.sampled_from(["vivian", "RYAN", "", "nobody", "../../x", "a" * 5000, "a\ud800"])),
    "speaker": or_anything(st.just("ryan")),
    "instructions": or_anything(TEXT),
    "response_format": or_anything(st.sampled_from(["wav", "pcm", "flac", "mp3", "opus", "aac", "WAV"])),
    "speed": NUMBER,
    "stream": FLAG,
    "stream_format": or_anything(st.sampled_from(["audio", "sse", "chunks"])),
    "task_type": or_anything(st.sampled_from(["CustomVoice", "VoiceDesign", "Base", "base"])),
    "language": or_anything(st.sampled_from(["English", "Auto", "auto", "Klingon", "en"])),
    "ref_audio": or_anything(st.sampled_from(REFERENCES)),
    "ref_text": or_anything(TEXT),
    "ref_audio_2": or_anything(st.sampled_from(REFERENCES)),
    "ambient_sound": ANYTHING,
    "duration_seconds": NUMBER,
    "x_vector_only_mode": FLAG,
    "speaker_embedding": or_anything(EMBEDDINGS),
    "max_new_tokens": NUMBER,
    "seed": NUMBER,
    "initial_codec_chunk_frames": NUMBER,
    "non_streaming_mode": FLAG,
    "extra_params": or_anything(
        st.dictionaries(st.sampled_from(["temperature", "top_k", "ref_code", "max_tokens"]), ANYTHING)
    ),
    "word_timestamps": FLAG,
    "references": or_anything(st.just([{"audio_path": "/etc/passwd", "text": "a"}])),
    "unknown": ANYTHING,
}

SOUND_PART = st.builds(
    lambda data, fmt: {"type": "input_audio", "input_audio": {"data": data, "format": fmt}},
    or_anything(st.sampled_from([*SOUNDS.values(), "@@@", "x"])),
    or_anything(st.sampled_from(["wav", "mp3", "flac", "exe"])),
)
PART = st.one_of(
    SOUND_PART,
    SOUND_PART,
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.sampled_from(REFERENCES).map(lambda url: {"type": "audio_url", "audio_url": {"url": url}}),
    st.sampled_from(
        [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
            *({"type": "text"}, {"type": "nothing"}, {}, "text", None, {"type": "input_audio"}),
            *({"type": "input_audio", "input_audio": None}, {"type": "refusal", "refusal": "no"}),
        ]
    ),
)
MESSAGE = st.builds(
    lambda role, content: {"role": role, "content": content},
    or_anything(st.sampled_from(["user", "user", "assistant", "system", "tool", "human", "developer"])),
    st.one_of(TEXT, st.lists(PART, max_size=4), ANYTHING),
)
CHAT = {
    "messages": or_anything(st.lists(MESSAGE, max_size=4)),
    "model": or_anything(st.just("whisper-1")),
    "modalities": or_anything(st.lists(st.sampled_from(["text", "audio", "smell"]), max_size=3)),
    "audio": or_anything(st.sampled_from([{"voice": "alloy", "format": "wav"}, {"format": "mp3"}, {"voice": {}}])),
    "stream": FLAG,
    "stream_options": or_anything(st.sampled_from([{"include_usage": True}, {"continuous_usage_stats": True}])),
    "sampling_params_list": or_anything(
        st.lists(st.sampled_from([{}, None, {"max_tokens": "x"}, {"max_tokens": -1}, {"n": 99}, {"a": 1}]), max_size=3)
    ),
    "stop": or_anything(st.sampled_from(["a", ["a"] * 100, [""], "\ud800"])),
    "stop_token_ids": or_anything(st.sampled_from([[0], [-1], [2**40], ["a"]])),
    "logit_bias": or_anything(st.sampled_from([{"0": 100}, {"-1": 1}, {"99999999": -100}, {"a": 1}, {"1": 1e999}])),
    "allowed_token_ids": or_anything(st.sampled_from([[0], [-1], [10**9], []])),
    "logprob_token_ids": or_anything(st.sampled_from([[0], [-1], [10**9], []])),
    "bad_words": or_anything(st.sampled_from([["a"], [""], ["\ud800"], ["x" * 5000]])),
    "tools": or_anything(st.just([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])),
    "tool_choice": or_anything(st.sampled_from(["auto", "required", "none"])),
    "response_format": or_anything(
        st.sampled_from(
            [{"type": "json_object"}, {"type": "text"}, {"type": "json_schema", "json_schema": {"name": "a"}}]
        )
    ),
    "structured_outputs": or_anything(
        st.sampled_from([{"regex": "(a+)+$"}, {"choice": []}, {"grammar": "x"}, {"json": "{"}])
    ),
    "chat_template": or_anything(
        st.sampled_from(["{% for i in range(10**9) %}{% endfor %}", "{{ x.__class__ }}", "{%"])
    ),
    "chat_template_kwargs": ANYTHING,
    "mm_processor_kwargs": or_anything(st.sampled_from([{"sampling_rate": 0}, {"audio": 1}])),
    "media_io_kwargs": or_anything(st.sampled_from([{"audio": {"sr": 0}}, {"audio": {"x": 1}}])),
    "request_id": or_anything(st.sampled_from(["same", "../x", "a" * 9999, "a\nb", "a\ud800"])),
    "kv_transfer_params": or_anything(st.just({"do_remote_prefill": True, "remote_host": "127.0.0.1"})),
    "repetition_detection": ANYTHING,
    "truncation_side": ANYTHING,
    "user": ANYTHING,
    "cache_salt": or_anything(TEXT),
    "vllm_xargs": ANYTHING,
    "unknown": ANYTHING,
    **dict.fromkeys(
        (
            *(
                "add_generation_prompt",
                "continue_final_message",
                "echo",
                "add_special_tokens",
                "ignore_eos",
                "logprobs",
            ),
            *("skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output", "use_beam_search"),
            *("return_token_ids", "return_tokens_as_token_ids", "return_prompt_text", "return_token_offsets"),
            *("include_reasoning", "parallel_tool_calls"),
        ),
        FLAG,
    ),
    **dict.fromkeys(
        (
            *("max_tokens", "max_completion_tokens", "min_tokens", "n", "top_logprobs", "prompt_logprobs", "seed"),
            *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty"),
            *("length_penalty", "priority", "truncate_prompt_tokens", "thinking_token_budget"),
        ),
        NUMBER,
    ),
}


def _changed(good, fields):
    """Return a strategy of ``good`` with up to three fields replaced."""
    names = st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True)
    changes = names.flatmap(lambda chosen: st.fixed_dictionaries({name: fields[name] for name in chosen}))
    return st.builds(lambda base, change: base | change, good, changes)


def speech(**good):
    """Bodies for ``/v1/audio/speech``; ``good`` is what makes a short valid one."""
    base = st.builds(lambda text, few: {"input": text, "max_new_tokens": few, **good}, st.just("Hello, world."), FEW)
    return _changed(base, SPEECH)


def chat():
    """Bodies for ``/v1/chat/completions``."""
    heard = {"type": "input_audio", "input_audio": {"data": SOUNDS["good"], "format": "wav"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is said?"}, heard]}]
    base = st.builds(lambda few: {"messages": messages, "modalities": ["text"], "max_tokens": few}, FEW)
    return _changed(base, CHAT)
