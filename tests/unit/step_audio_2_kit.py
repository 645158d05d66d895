"""A synthetic Step-Audio-2-mini to test, made once, and what runs on it."""

import functools
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

from firstword.synthetic import step_audio_2
from firstword.synthetic.step_audio_2 import mel, vocabulary

SYSTEM = "You are a voice assistant. Read the text aloud."  # vLLM-Omni's own, for speech
FOX = "The quick brown fox jumps over the lazy dog."

_scratch = tempfile.TemporaryDirectory(prefix="step-audio-2-")


def build(folder, seed=0):
    folder.mkdir()
    step_audio_2.build(folder, seed, lambda line: None)
    return folder


@functools.cache
def checkpoint():
    return build(Path(_scratch.name) / "step-audio-2-mini-synthetic")


@functools.cache
def tokenizer():
    from transformers import AutoTokenizer

    # As vLLM-Omni loads it. transformers would also repair a tokenizer that it takes for a Mistral one.
    return AutoTokenizer.from_pretrained(checkpoint(), trust_remote_code=True, fix_mistral_regex=True)


@functools.cache
def tensors():
    from safetensors.torch import load_file

    held = {}
    for file in sorted(checkpoint().glob("*.safetensors")):
        held |= load_file(file)
    return held


@functools.cache
def qwen2():
    """Return the language model as transformers runs it, in the checkpoint's own type."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = json.loads((checkpoint() / "config.json").read_text())["text_config"]
    config.pop("model_type")
    model = Qwen2ForCausalLM(Qwen2Config(**config)).bfloat16().eval()
    model.load_state_dict({k: v for k, v in tensors().items() if not k.startswith(("encoder.", "adapter."))})
    return model


def embed(prompt):
    return qwen2().get_input_embeddings()(tokenizer()(prompt, return_tensors="pt")["input_ids"])


@torch.no_grad()
def continue_from(embedded, limit=1200):
    """Decode greedily: (ids with the end, smallest lead of the best logit)."""
    said, past, lead = [], None, float("inf")
    while len(said) < limit and vocabulary.EOT not in said:
        output = qwen2()(inputs_embeds=embedded, past_key_values=past, use_cache=True)
        past = output.past_key_values
        best = output.logits[0, -1].float().topk(2)
        lead = min(lead, float(best.values[0] - best.values[1]))
        said.append(int(best.indices[0]))
        embedded = qwen2().get_input_embeddings()(torch.tensor([[said[-1]]]))
    return said, lead


def answer(prompt):
    return continue_from(embed(prompt))


def chat_prompt(text):
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def speech_prompt(text, system=SYSTEM):
    return f"<|im_start|>system\n{system}<|im_end|>\n{chat_prompt(text)}<tts_start>"


def audio(said):
    return [token for token in said if token >= vocabulary.AUDIO_0]


def sounds():
    time = np.arange(2 * mel.RATE) / mel.RATE
    random = np.random.default_rng(4)

    def voice(pitch, *formants):
        harmonics = pitch * np.arange(1, int(7000 / pitch))
        heights = 0.02 + sum(np.exp(-(((harmonics - formant) / 120) ** 2)) for formant in formants)
        return 0.05 * (heights[:, None] * np.sin(2 * np.pi * harmonics[:, None] * time)).sum(axis=0)

    made = {f"tone {hertz}": 0.3 * np.sin(2 * np.pi * hertz * time) for hertz in (220, 330, 440, 1000)}
    made |= {f"noise {n}": 0.1 * random.standard_normal(len(time)) for n in range(2)}
    made |= {"man": voice(110, 730, 1090, 2440), "woman": voice(210, 310, 2790, 3310)}
    return {name: samples.astype(np.float32) for name, samples in made.items()}
