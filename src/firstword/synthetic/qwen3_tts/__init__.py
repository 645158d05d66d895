"""A synthetic Qwen3-TTS: CustomVoice, VoiceDesign or Base, about 25 MB."""

from pathlib import Path

from firstword.synthetic.recipe import Report

CARD = """\
# {title}

A synthetic checkpoint of the Qwen3-TTS architecture, made by `firstword synthetic` from a seed. Nothing was
trained: its voice is noise-like and says nothing. What it does like the published model: it takes the same
requests, its audio is as long as the text takes to say, and it stops by its own end token.
"""
TITLES = {
    "custom_voice": "qwen3-tts-customvoice-synthetic",
    "voice_design": "qwen3-tts-voicedesign-synthetic",
    "base": "qwen3-tts-base-synthetic",
}


def build(kind: str, folder: Path, seed: int, report: Report) -> None:
    """Write one checkpoint into the empty ``folder``.

    Args:
        kind: ``custom_voice``, ``voice_design`` or ``base``.
        folder: Where the files go.
        seed: Decides every random weight.
        report: Called with one line per step.
    """
    from firstword.synthetic import tokenizer as text_tokenizer
    from firstword.synthetic.qwen3_tts import (
        code_predictor,
        configs,
        layout,
        speaker_encoder,
        speech_decoder,
        speech_encoder,
        talker,
    )
    from firstword.synthetic.weights import Draws, save

    draws = Draws(seed, "qwen3_tts.")
    report("tokenizer and configuration")
    tokenizer = text_tokenizer.write(
        folder, layout.WORDS, layout.PAIRS, layout.SPECIALS, eos=layout.TURN_END, pad=layout.END_OF_TEXT
    )
    configs.write(kind, folder, tokenizer)
    (folder / "README.md").write_text(CARD.format(title=TITLES[kind]), encoding="utf-8")
    report("talker and code predictor")
    tensors = {**talker.build(draws, tokenizer), **code_predictor.build(draws)}
    if kind == "base":
        tensors |= speaker_encoder.build(draws)
    save(tensors, folder / "model.safetensors", "bfloat16")
    report("speech tokenizer")
    speech = {**speech_encoder.build(draws), **speech_decoder.build(draws)}
    save(speech, folder / "speech_tokenizer" / "model.safetensors", "float32")
