"""The synthetic Step-Audio-2-mini: its files, and what its weights compute in the published classes."""

import hashlib
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from firstword.acceptance.duration import expected_seconds, window
from firstword.synthetic import step_audio_2
from firstword.synthetic.step_audio_2 import flow, language_model, mel, vocabulary, weights
from firstword.synthetic.step_audio_2.language_model import BITS, Channel

SYSTEM = "You are a voice assistant. Read the text aloud."  # vLLM-Omni's own, for speech
FOX = "The quick brown fox jumps over the lazy dog."
FILES = {
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


def build(folder, seed=0):
    folder.mkdir()
    step_audio_2.build(folder, seed, lambda line: None)
    return folder


def digests(folder):
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return build(tmp_path_factory.mktemp("made") / "step-audio-2-mini-synthetic")


@pytest.fixture(scope="module")
def tokenizer(checkpoint):
    from transformers import AutoTokenizer

    # As vLLM-Omni loads it. transformers would also repair a tokenizer that it takes for a Mistral one.
    return AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=True, fix_mistral_regex=True)


@pytest.fixture(scope="module")
def tensors(checkpoint):
    from safetensors.torch import load_file

    held = {}
    for file in sorted(checkpoint.glob("*.safetensors")):
        held |= load_file(file)
    return held


@pytest.fixture(scope="module")
def qwen2(checkpoint, tensors):
    """The language model as transformers runs it, in the checkpoint's own type."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = json.loads((checkpoint / "config.json").read_text())["text_config"]
    config.pop("model_type")
    model = Qwen2ForCausalLM(Qwen2Config(**config)).bfloat16().eval()
    model.load_state_dict({k: v for k, v in tensors.items() if not k.startswith(("encoder.", "adapter."))})
    return model


def speech_prompt(text, system=SYSTEM):
    return f"<|im_start|>system\n{system}<|im_end|>\n{chat_prompt(text)}<tts_start>"


def chat_prompt(text):
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


@torch.no_grad()
def continue_from(model, embedded, limit=1200):
    """Decode greedily: (ids with the end, smallest lead of the best logit)."""
    said, past, lead = [], None, float("inf")
    while len(said) < limit and vocabulary.EOT not in said:
        output = model(inputs_embeds=embedded, past_key_values=past, use_cache=True)
        past = output.past_key_values
        best = output.logits[0, -1].float().topk(2)
        lead = min(lead, float(best.values[0] - best.values[1]))
        said.append(int(best.indices[0]))
        embedded = model.get_input_embeddings()(torch.tensor([[said[-1]]]))
    return said, lead


@pytest.fixture(scope="module")
def answer(qwen2, tokenizer):
    def ask(prompt):
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        return continue_from(qwen2, qwen2.get_input_embeddings()(ids))

    return ask


def audio(said):
    return [token for token in said if token >= vocabulary.AUDIO_0]


def seconds(said):
    return len(audio(said)) / 25


# Files.


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(checkpoint, tmp_path):
    made = digests(checkpoint)
    assert digests(build(tmp_path / "again")) == made
    other = digests(build(tmp_path / "other", seed=1))
    random = {name for name in made if other[name] != made[name]}
    assert random == FILES - {
        "config.json",
        "configuration_step_audio_2.py",
        "model.safetensors.index.json",
        "tokenizer_config.json",
        "token2wav/flow.yaml",
        "assets/default_female.wav",
        "model-00002-of-00004.safetensors",  # how the layers count
    }


def test_files_have_the_published_names_and_stay_small(checkpoint):
    sizes = {str(file.relative_to(checkpoint)): file.stat().st_size for file in checkpoint.rglob("*") if file.is_file()}
    assert set(sizes) == FILES
    assert sum(sizes.values()) < 90e6
    assert all((checkpoint / name).stat().st_mode & 0o044 == 0o044 for name in FILES), "readable by any user"


def test_the_index_names_every_tensor_where_it_is(checkpoint):
    from safetensors import safe_open

    index = json.loads((checkpoint / "model.safetensors.index.json").read_text())
    found = {}
    for file in checkpoint.glob("*.safetensors"):
        with safe_open(file, "pt") as held:
            found |= dict.fromkeys(held.keys(), file.name)
    assert index["weight_map"] == found
    assert set(found.values()) == {f"model-0000{k}-of-00004.safetensors" for k in (1, 2, 3, 4)}


def test_no_weight_of_the_thinker_is_rounded_where_it_counts(tensors):
    layers = {k: v for k, v in tensors.items() if k.startswith("model.layers.")}
    assert layers
    mantissas = torch.cat([torch.frexp(v.float())[0].abs().unique() for v in layers.values()]).unique()
    assert mantissas.tolist() == [0.0, 0.5], "powers of two only: exact in any float type"


def test_the_configuration_is_read_by_its_own_code(checkpoint):
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(checkpoint, trust_remote_code=True)
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
def test_special_ids_are_the_published_ones(tokenizer, text, token):
    assert tokenizer.convert_tokens_to_ids(text) == token
    assert tokenizer(f"a{text}b")["input_ids"] == [ord("a"), token, ord("b")]


@pytest.mark.parametrize(
    "text", [FOX, "  two\n\nlines\t", "你好 世界 🙂", "assistants of a superuser's user-assistant", "~1f"]
)
def test_text_is_read_byte_by_byte_and_comes_back(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert ids == list(text.encode())
    assert tokenizer.decode(ids) == text


def test_a_role_between_marks_is_one_token(tokenizer):
    ids = tokenizer("<|im_start|>user\nuser <|BOT|>human\n<|im_start|>assistant\n")["input_ids"]
    assert [token for token in ids if token in vocabulary.ROLES.values()] == [257, 257, 258, 259]


def test_what_the_model_says_is_never_read_as_its_own_tokens(tokenizer):
    said = vocabulary.sayable(np.random.default_rng(0)).words
    for text in list(said.values())[::97]:
        assert tokenizer(text)["input_ids"] == list(text.encode())


def test_every_id_has_a_name(tokenizer):
    assert sorted(tokenizer.get_vocab().values()) == list(range(158258))


def test_the_chat_template_marks_audio_and_opens_the_answer(tokenizer):
    content = [{"type": "input_audio"}, {"type": "text", "text": "What?"}]
    prompt = tokenizer.apply_chat_template(
        [{"role": "system", "content": "S"}, {"role": "user", "content": content}],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert prompt == (
        "<|im_start|>system\nS<|im_end|>\n"
        "<|im_start|>user\n<audio_start><audio_patch><audio_end>What?<|im_end|>\n<|im_start|>assistant\n"
    )
    spoken = [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "<tts_start>"}]
    assert tokenizer.apply_chat_template(spoken, tokenize=False, continue_final_message=True).endswith(
        "<|im_start|>assistant\n<tts_start>"
    )


# Language model.


@pytest.mark.parametrize(
    "text",
    ["Hi", "Hello world.", FOX, f"{FOX} {FOX}", "你好世界。今天天气很好。", "Call 555-2368 at 10:30, it costs $20."],
)
def test_speech_lasts_as_long_as_its_text_and_ends_by_itself(answer, text):
    said, lead = answer(speech_prompt(text))
    assert said[-1] == vocabulary.EOT
    assert said.count(vocabulary.EOT) == 1
    bounds = window(text)
    assert bounds.lower * 1.2 < seconds(said) < bounds.upper * 0.9
    assert lead >= 2, "rounding must not decide"


def test_speech_has_twelve_to_eighteen_characters_a_second(answer):
    text = "and then he said that she had said that it had rained all day in the old town by the sea "
    said, _ = answer(speech_prompt(text * 2))
    assert 12 < 2 * len(text) / seconds(said) < 18
    assert seconds(said) == pytest.approx(expected_seconds(text * 2), rel=0.1)


def test_speech_is_words_and_audio_in_turn(answer, tokenizer):
    said, _ = answer(speech_prompt(FOX))
    heard = "".join("a" if token >= vocabulary.AUDIO_0 else "w" for token in said[:-1])
    assert re.fullmatch("(wa{25})+wa{1,25}", heard)
    assert len(set(audio(said))) > 0.6 * len(audio(said)), "no drone"
    assert max(audio(said)) - vocabulary.AUDIO_0 < vocabulary.SPEECH_CODES
    words = tokenizer.decode([token for token in said if token < vocabulary.EOT])
    assert re.fullmatch("([a-z]{4} )+[a-z]{4}", words)


def test_instructions_change_speech_but_not_its_length(answer):
    plain, _ = answer(speech_prompt(FOX))
    told, _ = answer(speech_prompt(FOX, system="Speak like a tired old man who has just walked up seven flights."))
    assert told != plain
    assert len(told) == len(plain)


def test_written_answers_end_do_not_loop_and_follow_the_question(answer, tokenizer):
    texts = {}
    for question in ("What is the weather?", "Is it late?", FOX * 20):
        said, lead = answer(chat_prompt(question))
        assert said[-1] == vocabulary.EOT
        assert not audio(said)
        assert lead >= 2
        assert len(set(said)) == len(said)
        texts[question] = tokenizer.decode(said[:-1])
        assert re.fullmatch("([a-z]{4} )+[a-z]{4}", texts[question])
    assert len(set(texts.values())) == 3
    assert len(texts["Is it late?"]) < len(texts["What is the weather?"]) < len(texts[FOX * 20])


def test_both_ways_to_mark_turns_are_understood(answer):
    ours, _ = answer(chat_prompt("How are you today?"))
    theirs, _ = answer("<|BOT|>human\nHow are you today?<|EOT|><|BOT|>assistant\n")
    assert len(theirs) == len(ours)


def test_only_what_stands_in_the_users_turn_is_said(answer):
    history = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n" + "long answer " * 20 + "<|im_end|>\n"
    alone, _ = answer(chat_prompt("Tell me more about that."))
    after, _ = answer(history + chat_prompt("Tell me more about that."))
    assert len(alone) <= len(after) <= len(alone) + 2


def test_a_batch_in_bfloat16_gives_the_logits_of_each_alone(qwen2, tokenizer):
    prompts = [speech_prompt(FOX[:length]) for length in (44, 44, 44)] + [speech_prompt(FOX[::-1])]
    ids = tokenizer(prompts, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        together = qwen2(input_ids=ids).logits.argmax(-1)
        alone = torch.cat([qwen2(input_ids=row[None]).logits.argmax(-1) for row in ids])
    assert torch.equal(together, alone)


# Hearing. In a process of its own: vLLM-Omni's encoder comes with all of vLLM.

HEARING = """
import sys, json, numpy as np, torch
from safetensors.torch import load_file
from vllm_omni.model_executor.models.step_audio2.step_audio2_thinker import AudioEncoder, Adaptor, log_mel_spectrogram
folder, sounds, out = sys.argv[1:]
c = json.load(open(f"{folder}/config.json"))["audio_encoder_config"]
state = load_file(f"{folder}/model-00003-of-00004.safetensors")
def part(module, prefix):
    module.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}, strict=True)
    return module.bfloat16().eval()
sizes = [c[key] for key in ("n_mels", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer")]
encoder = part(AudioEncoder(*sizes), "encoder.")
adapter = part(Adaptor(c["n_audio_state"], c["llm_dim"], c["kernel_size"], c["adapter_stride"]), "adapter.")
heard = {}
with torch.no_grad():
    for name, samples in np.load(sounds).items():
        mels = log_mel_spectrogram(samples)[None].bfloat16()
        features, lengths = encoder(mels, torch.tensor([mels.shape[-1] - 2]))
        heard[name] = adapter(features)[0, : (int(lengths[0]) - 1) // 2 + 1].float().numpy()
    heard["mel"] = log_mel_spectrogram(samples).numpy()
np.savez(out, **heard)
"""


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


@pytest.fixture(scope="module")
def heard(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heard")
    made = sounds()
    np.savez(folder / "sounds.npz", louder=0.5 * made["man"], **made)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"}
    arguments = [str(checkpoint), str(folder / "sounds.npz"), str(folder / "heard.npz")]
    subprocess.run([sys.executable, "-c", HEARING, *arguments], env=environment, check=True, capture_output=True)
    return dict(np.load(folder / "heard.npz"))


def test_each_piece_of_audio_casts_whole_votes_and_adds_to_the_budget(heard):
    for name, pieces in heard.items():
        if name == "mel":
            continue
        assert set(np.abs(pieces[:, Channel.VOTE : Channel.VOTE + BITS]).flat) == {language_model.AUDIO_VOTES}, name
        assert set(pieces[:, Channel.HEARD]) == {language_model.HEARD_AUDIO}
        assert set(pieces[:, Channel.CONSTANT]) == {language_model.CONSTANT}


def test_pieces_of_one_recording_agree_and_recordings_differ(heard):
    votes = {}
    for name in sounds():
        pieces = heard[name][:, Channel.VOTE : Channel.VOTE + BITS]
        assert np.abs(pieces.mean(axis=0)).min() > 0.8 * language_model.AUDIO_VOTES, name
        votes[name] = tuple(pieces.sum(axis=0) > 0)
    assert len(set(votes.values())) == len(votes)
    louder = tuple(heard["louder"][:, Channel.VOTE : Channel.VOTE + BITS].sum(axis=0) > 0)
    assert louder == votes["man"], "loudness says nothing"


def test_our_spectrogram_is_the_models(heard):
    ours, theirs = mel.log_mel(sounds()["woman"].astype(np.float64)), heard["mel"]
    # The model's frames are centred: its first has half a window before the sound.
    best = min(np.abs(ours[:, 10:90] - theirs[:, 10 + k : 90 + k]).max() for k in (0, 1, 2))
    assert best < 1.0
    assert ours.shape[0] == theirs.shape[0] == mel.BANDS


def test_transcripts_follow_the_recording(qwen2, tokenizer, heard):
    embed = qwen2.get_input_embeddings()
    opening = embed(tokenizer("<|im_start|>user\n<audio_start>", return_tensors="pt")["input_ids"])
    rest = "<audio_end>Transcribe.<|im_end|>\n<|im_start|>assistant\n"
    closing = embed(tokenizer(rest, return_tensors="pt")["input_ids"])
    texts = {}
    for name in sounds():
        pieces = torch.from_numpy(heard[name])[None].bfloat16()
        said, lead = continue_from(qwen2, torch.cat([opening, pieces, closing], dim=1))
        assert said[-1] == vocabulary.EOT
        assert lead >= 2
        texts[name] = tokenizer.decode(said[:-1])
        assert 3 <= len(texts[name].split()) <= 14
    assert len(set(texts.values())) == len(texts), texts


# token2wav.


def test_s3tokenizer_loads_the_speech_tokenizer(checkpoint):
    import s3tokenizer

    model = s3tokenizer.load_model(str(checkpoint / "token2wav/speech_tokenizer_v2_25hz.onnx")).eval()
    shortest = min(
        float(p.detach().std()) for n, p in model.named_parameters() if n.endswith("weight") and "ln" not in n
    )
    assert shortest > 0.001, "every weight was found and read"
    spectra = torch.stack(
        [torch.from_numpy(mel.log_mel(sounds()[name].astype(float))).float() for name in ("man", "noise 0")]
    )
    codes, lengths = model.quantize(spectra, torch.tensor([spectra.shape[2]] * 2))
    assert lengths.tolist() == [50, 50]
    assert codes.min() >= 0
    assert codes.max() < vocabulary.SPEECH_CODES
    assert not torch.equal(codes[0], codes[1])


def test_the_speaker_model_tells_voices_apart(checkpoint):
    import onnxruntime

    session = onnxruntime.InferenceSession(checkpoint / "token2wav/campplus.onnx", providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    spread = np.linspace(1, 4, 80)
    voices = [random.standard_normal((1, frames, 80)) * shape for frames, shape in ((100, spread), (70, spread[::-1]))]
    embeddings = []
    for features in voices:
        centred = (features - features.mean(axis=1, keepdims=True)).astype(np.float32)
        embeddings.append(session.run(None, {session.get_inputs()[0].name: centred})[0])
    assert embeddings[0].shape == (1, 192)
    assert np.corrcoef(*(e[0] for e in embeddings))[0, 1] < 0.5


def test_flow_yaml_names_the_published_classes(checkpoint):
    text = (checkpoint / "token2wav/flow.yaml").read_text()
    assert re.findall(r"!new:(\S+)", text) == [
        "cosyvoice2.flow.flow.CausalMaskedDiffWithXvec",
        "cosyvoice2.transformer.upsample_encoder_v2.UpsampleConformerEncoderV2",
        "cosyvoice2.flow.flow_matching.CausalConditionalCFM",
        "cosyvoice2.flow.decoder_dit.DiT",
    ]


def load(path):
    return torch.load(path, map_location="cpu", weights_only=True)


def test_flow_and_vocoder_have_the_classes_own_tensors(checkpoint):
    from flashcosyvoice.modules.hifigan import HiFTGenerator
    from hyperpyyaml import load_hyperpyyaml

    with torch.device("meta"):
        published_flow = weights.shapes(load_hyperpyyaml((checkpoint / "token2wav/flow.yaml").read_text())["flow"])
        published_hift = weights.shapes(HiFTGenerator())
    held_flow, held_hift = (load(checkpoint / "token2wav" / name) for name in ("flow.pt", "hift.pt"))
    assert {k: tuple(v.shape) for k, v in held_flow.items()} == published_flow
    assert all(name.startswith("generator.") for name in held_hift)
    assert {k.removeprefix("generator."): tuple(v.shape) for k, v in held_hift.items()} == published_hift
    assert all(bool(v.isfinite().all()) for v in (*held_flow.values(), *held_hift.values()))


@torch.no_grad()
def test_the_estimator_leads_to_its_target(checkpoint):
    from cosyvoice2.flow.decoder_dit import DiT

    estimator = DiT(
        in_channels=320, out_channels=80, mlp_ratio=0.25, depth=1, num_heads=8, head_dim=64, hidden_size=512
    )
    held = load(checkpoint / "token2wav/flow.pt")
    prefix = "decoder.estimator."
    estimator.load_state_dict({k.removeprefix(prefix): v for k, v in held.items() if k.startswith(prefix)})
    noisy, target, prompt = torch.randn(3, 1, 80, 40, generator=torch.Generator().manual_seed(0))
    speaker = torch.linspace(-1, 1, 80)[None]
    mask = torch.ones(1, 1, 40)
    there = estimator.eval()(noisy, mask, target, torch.tensor([0.3]), speaker, torch.zeros_like(prompt))
    aim = 3.0 * (target + speaker[:, :, None] - noisy)
    assert (there - aim).std() < 0.1 * aim.std()
    moved = estimator(noisy, mask, target.roll(7, dims=2), torch.tensor([0.3]), speaker, torch.zeros_like(prompt))
    assert not torch.allclose(there - aim, moved - aim.roll(7, dims=2)), "frames see each other"


@torch.no_grad()
def test_the_vocoder_speaks_at_a_level_and_pitch_of_its_own(checkpoint):
    from flashcosyvoice.modules.hifigan import HiFTGenerator

    hift = HiFTGenerator()
    held = load(checkpoint / "token2wav/hift.pt")
    hift.load_state_dict({k.removeprefix("generator."): v for k, v in held.items()}, strict=True)
    torch.manual_seed(0)
    # As flow makes it: two frames a token, each deviating by 1.7 * SPREAD.
    spectrum = (1.7 * flow.SPREAD * torch.randn(1, 80, 60)).repeat_interleave(2, dim=2)
    pitch = hift.eval().f0_predictor(spectrum)
    assert 60 < pitch.min() < pitch.max() < 300
    assert pitch.std() > 5
    sound = hift(spectrum)[0][0].numpy()
    assert len(sound) == 120 * 480
    assert 0.05 < sound.std() < 0.2
    assert np.abs(sound).max() < 0.8
    assert abs(sound.mean()) < 0.002
    loudness = [block.std() for block in np.array_split(sound, 24)]
    assert max(loudness) > 1.3 * min(loudness) > 0.03
    assert not np.allclose(hift(spectrum.flip(2))[0][0].numpy(), sound, atol=0.01)
