"""The synthetic Step-Audio-2-mini: its files, its tokenizer and what its language model says."""

import hashlib
import json
import re

import numpy as np
import pytest
import torch
from step_audio_2_kit import (
    FOX,
    answer,
    audio,
    build,
    chat_prompt,
    checkpoint,
    qwen2,
    speech_prompt,
    tensors,
    tokenizer,
)

from firstword.acceptance.duration import expected_seconds, window
from firstword.synthetic.step_audio_2 import language_model, vocabulary

FILES = {
    "README.md",
    "config.json",
    "configuration_step_audio_2.py",
    "model-00001-of-00004.safetensors",
    "model-00002-of-00004.safetensors",
    "model-00003-of-00004.safetensors",
    "model-00004-of-00004.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "token2wav/campplus.onnx",
    "token2wav/flow.pt",
    "token2wav/flow.yaml",
    "token2wav/hift.pt",
    "token2wav/speech_tokenizer_v2_25hz.onnx",
    "assets/default_female.wav",
}


def digests(folder):
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def seconds(said):
    return len(audio(said)) / 25


# Files.


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    made = digests(checkpoint())
    assert digests(build(tmp_path / "again")) == made
    other = digests(build(tmp_path / "other", seed=1))
    random = {name for name in made if other[name] != made[name]}
    assert random == FILES - {
        "README.md",
        "config.json",
        "configuration_step_audio_2.py",
        "model.safetensors.index.json",
        "tokenizer_config.json",
        "token2wav/flow.yaml",
        "assets/default_female.wav",
        "model-00002-of-00004.safetensors",  # how the layers count
    }


def test_files_have_the_published_names_and_stay_small():
    files = [file for file in checkpoint().rglob("*") if file.is_file()]
    sizes = {str(file.relative_to(checkpoint())): file.stat().st_size for file in files}
    assert set(sizes) == FILES
    assert sum(sizes.values()) < 90e6
    assert all((checkpoint() / name).stat().st_mode & 0o044 == 0o044 for name in FILES), "readable by any user"


def test_the_index_names_every_tensor_where_it_is():
    from safetensors import safe_open

    index = json.loads((checkpoint() / "model.safetensors.index.json").read_text())
    found = {}
    for file in checkpoint().glob("*.safetensors"):
        with safe_open(file, "pt") as held:
            found |= dict.fromkeys(held.keys(), file.name)
    assert index["weight_map"] == found
    assert set(found.values()) == {f"model-0000{k}-of-00004.safetensors" for k in (1, 2, 3, 4)}


def test_no_weight_of_the_thinker_is_rounded_where_it_counts():
    layers = {k: v for k, v in tensors().items() if k.startswith("model.layers.")}
    assert layers
    mantissas = torch.cat([torch.frexp(v.float())[0].abs().unique() for v in layers.values()]).unique()
    assert mantissas.tolist() == [0.0, 0.5], "powers of two only: exact in any float type"


def test_the_configuration_is_read_by_its_own_code():
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(checkpoint(), trust_remote_code=True)
    assert type(config).__name__ == "StepAudio2Config"
    assert config.get_text_config().hidden_size == config.audio_encoder_config.llm_dim == language_model.HIDDEN
    assert config.eos_token_id == [151643, 151645, 151665]
    assert config.text_config.architectures == ["Qwen2ForCausalLM"]


# Tokenizer.


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("<|im_start|>", 151644),
        ("<|EOT|>", 151665),
        ("<|BOT|>", 151666),
        ("<audio_patch>", 151690),
        ("<tts_start>", 151693),
        ("<tts_pad>", 151695),
        ("<audio_0>", 151696),
        ("<audio_6561>", 158257),
    ],
)
def test_special_ids_are_the_published_ones(text, token):
    assert tokenizer().convert_tokens_to_ids(text) == token
    assert tokenizer()(f"a{text}b")["input_ids"] == [ord("a"), token, ord("b")]


@pytest.mark.parametrize(
    "text", [FOX, "  two\n\nlines\t", "你好 世界 🙂", "assistants of a superuser's user-assistant", "~1f"]
)
def test_text_is_read_byte_by_byte_and_comes_back(text):
    ids = tokenizer()(text)["input_ids"]
    assert ids == list(text.encode())
    assert tokenizer().decode(ids) == text


def test_a_role_between_marks_is_one_token():
    ids = tokenizer()("<|im_start|>user\nuser <|BOT|>human\n<|im_start|>assistant\n")["input_ids"]
    assert [token for token in ids if token in vocabulary.ROLES.values()] == [257, 257, 258, 259]


def test_what_the_model_says_is_never_read_as_its_own_tokens():
    said = vocabulary.sayable(np.random.default_rng(0)).words
    for text in list(said.values())[::97]:
        assert tokenizer()(text)["input_ids"] == list(text.encode())


def test_every_id_has_a_name():
    assert sorted(tokenizer().get_vocab().values()) == list(range(158258))


def test_the_chat_template_marks_audio_and_opens_the_answer():
    content = [{"type": "input_audio"}, {"type": "text", "text": "What?"}]
    prompt = tokenizer().apply_chat_template(
        [{"role": "system", "content": "S"}, {"role": "user", "content": content}],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert prompt == (
        "<|im_start|>system\nS<|im_end|>\n"
        "<|im_start|>user\n<audio_start><audio_patch><audio_end>What?<|im_end|>\n<|im_start|>assistant\n"
    )
    spoken = [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "<tts_start>"}]
    assert (
        tokenizer()
        .apply_chat_template(spoken, tokenize=False, continue_final_message=True)
        .endswith("<|im_start|>assistant\n<tts_start>")
    )


# Language model.


@pytest.mark.parametrize(
    "text",
    ["Hi", "Hello world.", FOX, f"{FOX} {FOX}", "你好世界。今天天气很好。", "Call 555-2368 at 10:30, it costs $20."],
)
def test_speech_lasts_as_long_as_its_text_and_ends_by_itself(text):
    said, lead = answer(speech_prompt(text))
    assert said[-1] == vocabulary.EOT
    assert said.count(vocabulary.EOT) == 1
    bounds = window(text)
    assert bounds.lower * 1.2 < seconds(said) < bounds.upper * 0.9
    assert lead >= 2, "rounding must not decide"


def test_speech_has_twelve_to_eighteen_characters_a_second():
    text = "and then he said that she had said that it had rained all day in the old town by the sea "
    said, _ = answer(speech_prompt(text * 2))
    assert 12 < 2 * len(text) / seconds(said) < 18
    assert seconds(said) == pytest.approx(expected_seconds(text * 2), rel=0.1)


def test_speech_is_words_and_audio_in_turn():
    said, _ = answer(speech_prompt(FOX))
    heard = "".join("a" if token >= vocabulary.AUDIO_0 else "w" for token in said[:-1])
    assert re.fullmatch("(wa{25})+wa{1,25}", heard)
    assert len(set(audio(said))) > 0.6 * len(audio(said)), "no drone"
    assert max(audio(said)) - vocabulary.AUDIO_0 < vocabulary.SPEECH_CODES
    words = tokenizer().decode([token for token in said if token < vocabulary.EOT])
    assert re.fullmatch("([a-z]{4} )+[a-z]{4}", words)


def test_instructions_change_speech_but_not_its_length():
    plain, _ = answer(speech_prompt(FOX))
    told, _ = answer(speech_prompt(FOX, system="Speak like a tired old man who has just walked up seven flights."))
    assert told != plain
    assert len(told) == len(plain)


def test_written_answers_end_do_not_loop_and_follow_the_question():
    texts = {}
    for question in ("What is the weather?", "Is it late?", FOX * 20):
        said, lead = answer(chat_prompt(question))
        assert said[-1] == vocabulary.EOT
        assert not audio(said)
        assert lead >= 2
        assert len(set(said)) == len(said)
        texts[question] = tokenizer().decode(said[:-1])
        assert re.fullmatch("([a-z]{4} )+[a-z]{4}", texts[question])
    assert len(set(texts.values())) == 3
    assert len(texts["Is it late?"]) < len(texts["What is the weather?"]) < len(texts[FOX * 20])


def test_both_ways_to_mark_turns_are_understood():
    ours, _ = answer(chat_prompt("How are you today?"))
    theirs, _ = answer("<|BOT|>human\nHow are you today?<|EOT|><|BOT|>assistant\n")
    assert len(theirs) == len(ours)


def test_only_what_stands_in_the_users_turn_is_said():
    history = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n" + "long answer " * 20 + "<|im_end|>\n"
    alone, _ = answer(chat_prompt("Tell me more about that."))
    after, _ = answer(history + chat_prompt("Tell me more about that."))
    assert len(alone) <= len(after) <= len(alone) + 2


def test_a_batch_in_bfloat16_gives_the_logits_of_each_alone():
    prompts = [speech_prompt(FOX[:length]) for length in (44, 44, 44)] + [speech_prompt(FOX[::-1])]
    ids = tokenizer()(prompts, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        together = qwen2()(input_ids=ids).logits.argmax(-1)
        alone = torch.cat([qwen2()(input_ids=row[None]).logits.argmax(-1) for row in ids])
    assert torch.equal(together, alone)
