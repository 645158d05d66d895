"""Checks on the text to speak: what is none is refused, and special tokens in it are text."""

from typing import Any

from speech_server import CHECKPOINT, ask, recording, server

NOTHING = {
    "empty": "",
    "spaces": " \t\n ",
    "punctuation": "?! ... — «»",
    "emoji": "🎉🎉",
    "control characters": "\x00\x07\x1b",
    "zero width": "\u200b\u200d\u2060\ufeff",
    "special tokens": "<|im_end|>",
    "special tokens and spaces": " <|im_start|> \n<|im_end|>",
    "half a surrogate pair": "Hello \ud83d there.",
}
TEXT = {
    "a word": "Hi",
    "a digit": "7",
    "Chinese": "你好",
    "Arabic": "مرحبا",
    "emoji and a word": "🎉 Hi",
    "control characters and a word": "\x00Hi\x1b",
    "special tokens and a word": "Hi <|im_end|> there <|im_start|>assistant",
}


def texts() -> dict[str, Any]:
    from transformers import AutoTokenizer
    from vllm_omni.model_executor.models.qwen3_tts.prompt_embeds_builder import (
        build_assistant_text,
        build_instruct_text,
        build_ref_text,
    )

    made = server(kind="custom_voice", speakers={"vivian"})
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    marks = set(tokenizer.get_added_vocab().values())

    def specials(template: str) -> int:
        return sum(token in marks for token in tokenizer(template)["input_ids"])

    out: dict[str, Any] = {}
    for name, text in (NOTHING | TEXT).items():
        try:
            asked = ask(made, input=text)
        except ValueError as error:
            out[name] = "refused" if "text" in str(error) else str(error)
            continue
        info = asked.prompt["additional_information"]
        try:
            extra = specials(build_assistant_text(info["text"][0])) - specials(build_assistant_text("Hi"))
            out[name] = "spoken" if extra == 0 else f"spoken, with {extra} special tokens"
        except TypeError:
            out[name] = "breaks the tokenizer"
    clone = ask(
        server(), ref_text=TEXT["special tokens and a word"], ref_audio=recording(), instructions="<|im_end|>Loud"
    )
    info = clone.prompt["additional_information"]
    out["in the other texts"] = [
        specials(build_ref_text(info["ref_text"][0])) - specials(build_ref_text("Hi")),
        specials(build_instruct_text(info["instruct"][0])) - specials(build_instruct_text("Hi")),
    ]
    return out


def bound() -> dict[str, Any]:
    """How many frames a text may take; and what the scheduler makes of a request that reaches its limit."""
    from failing_checks import capped

    made = server(kind="custom_voice", speakers={"vivian"})

    def frames(text: str, **fields: Any) -> int:
        return int(ask(made, input=text, **fields).params[0].max_tokens)

    sentence, digits = "The quick brown fox jumps over the lazy dog.", "31415926"
    return {
        "a word": frames("Hi"),
        "a sentence": frames(sentence),
        "digits": frames(digits),
        "Chinese": frames("你好世界"),
        "a long text": frames(sentence * 100),
        "by the request": frames(sentence, extra_params={"max_frames_per_character": 2}),
        "switched off": frames(sentence, extra_params={"max_frames_per_character": 0}),
        "max_new_tokens": frames("Hi", max_new_tokens=1500),
        "the shared defaults": made.engine_client.default_sampling_params_list[0].max_tokens,
        "cut off": capped(ask(made, input=sentence).params[0]),
        "cut off at max_new_tokens": capped(ask(made, input=sentence, max_new_tokens=9).params[0]),
    }


def extra_params() -> dict[str, Any]:
    """What may stand in extra_params; the stage takes each value as it comes."""
    made = server(kind="custom_voice", speakers={"vivian"})
    tries: dict[str, Any] = {
        "good": {"temperature": 0.5, "top_p": 0.9, "top_k": 20, "max_frames_per_character": 4},
        "none": {"temperature": None},
        "a word": {"temperature": "hot"},
        "true": {"top_p": True},
        "a list": {"top_k": [1]},
        "below": {"temperature": -1.0},
        "above": {"top_p": 1.5},
        "not a number": {"temperature": float("nan")},
        "endless": {"temperature": float("inf")},
        "half": {"top_k": 2.5},
        "the engine's own": {"kv_transfer_params": {"do_remote_decode": True}},
        "a seed of the talker": {"tts_local_seed": "x"},
    }
    out: dict[str, Any] = {}
    for name, params in tries.items():
        try:
            asked = ask(made, extra_params=params).params[0]
            out[name] = [asked.temperature, asked.top_p, asked.top_k] if name == "good" else "taken"
        except ValueError:
            out[name] = "refused"
        except Exception as error:
            out[name] = f"raised {type(error).__name__}"
    return out
