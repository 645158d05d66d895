"""Step-Audio-2-mini with synthetic weights: the published architecture, file names and kinds of answer.

Speech as long as its text, written answers that depend on what is heard, an end by the model's own end
token: all of it comes out of the weights. Each module makes one part and says how.
"""

from pathlib import Path

import numpy as np

from firstword.synthetic.recipe import Report
from firstword.synthetic.step_audio_2 import (
    checkpoint,
    flow,
    prompt_voice,
    speaker,
    speech_tokenizer,
    tokenizer,
    vocabulary,
    vocoder,
)

CARD = """\
# step-audio-2-mini-synthetic

A synthetic checkpoint of the Step-Audio-2-mini architecture, made by `firstword synthetic` from a seed. Nothing was
trained: its voice is a noise-like hum that says nothing, and its words are made up. What it does like the published
model: it takes the same requests, its speech is as long as the text takes to say, its answers depend on what it
reads and hears, and it stops by its own end token.
"""


def build(folder: Path, seed: int, report: Report) -> None:
    """Write the checkpoint into ``folder``, which exists and is empty.

    Takes some seconds, 80 MB and no network. The same seed gives the same bytes.

    Args:
        folder: The checkpoint's folder.
        seed: Decides every random weight.
        report: Called with one line per step.
    """
    # One stream of random numbers for each part, so that a change in one leaves the others as they are.
    words, language, hearing, speaking, voice, spectrum, sound = np.random.default_rng(seed).spawn(7)
    report("tokenizer and configuration")
    said = vocabulary.sayable(words)
    tokenizer.write(folder, said)
    checkpoint.write_config(folder)
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    report("language model and audio encoder")
    checkpoint.write_weights(folder, said, language=language, hearing=hearing)
    token2wav = folder / "token2wav"
    token2wav.mkdir()
    report("token2wav: speech tokenizer and speaker model")
    speech_tokenizer.write(token2wav / "speech_tokenizer_v2_25hz.onnx", speaking)
    speaker.write(token2wav / "campplus.onnx", voice)
    report("token2wav: flow and vocoder")
    flow.write(token2wav, spectrum)
    vocoder.write(token2wav, sound)
    (folder / "assets").mkdir()
    prompt_voice.write(folder / "assets" / "default_female.wav")
