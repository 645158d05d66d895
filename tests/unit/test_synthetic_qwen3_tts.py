"""The synthetic Qwen3-TTS: its files, what its talker says, how it ends, what it sounds like."""

import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from qwen3_tts_kit import CODES, EOS, GROUPS, SpeechTokenizer, Talker
from transformers import AutoTokenizer

from firstword.acceptance.duration import window
from firstword.synthetic import linking, qwen3_tts
from firstword.synthetic.qwen3_tts import pace, speech_decoder
from firstword.synthetic.qwen3_tts.layout import FIRST_REFERENCE_CODE
from firstword.synthetic.weights import Draws

KINDS = ("custom_voice", "voice_design", "base")
FILES = {
    "README.md",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "model.safetensors",
    "preprocessor_config.json",
    "speech_tokenizer/config.json",
    "speech_tokenizer/configuration.json",
    "speech_tokenizer/model.safetensors",
    "speech_tokenizer/preprocessor_config.json",
    "tokenizer_config.json",
    "vocab.json",
}
VOICES = ["vivian", "serena", "uncle_fu", "dylan", "eric", "ryan", "aiden", "ono_anna", "sohee"]
LANGUAGES = {
    "chinese",
    "english",
    "japanese",
    "korean",
    "german",
    "french",
    "russian",
    "portuguese",
    "spanish",
    "italian",
}
TEXTS = [
    "a",
    "Hi.",
    "Hello there, how are you today?",
    "¿Cómo estás? Très bien, merci beaucoup, à bientôt!",
    "Привет, это первая настоящая фраза.",
    "今天天气很好，我们一起去公园散步吧。",  # noqa: RUF001 - full-width marks are meant
    "きょうはとてもいいてんきですね。",
    "안녕하세요, 만나서 반갑습니다.",
    "Room 204, at 8:30: 100% of $5.",
    "The assistant asks the user. " * 10,
    ("It is easy to tell the depth of a well. These days a chicken leg is a rare dish. " * 8)[:600],
]


def make(kind: str, folder: Path, seed: int = 0) -> Path:
    folder.mkdir(parents=True)
    qwen3_tts.build(kind, folder, seed, lambda line: None)
    return folder


def files(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def expected_frames(text: str) -> int:
    return math.floor(pace.frames_of(text.encode()) + pace.EDGES + pace.HALF_STEP) + 1


def random_codes(frames: int, seed: int = 0) -> torch.Tensor:
    """Return frames as the talker may sample them, shape ``[frames, 16]``."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, CODES, (frames, GROUPS), generator=generator)
    codes[:, 0] = torch.randint(1, FIRST_REFERENCE_CODE, (frames,), generator=generator)
    return codes


def reference(seconds: float, pitch: float) -> np.ndarray:
    time = np.arange(int(seconds * 24000)) / 24000
    return (0.2 * np.sign(np.sin(2 * np.pi * pitch * time)) * (0.6 + 0.4 * np.sin(19 * time))).astype(np.float32)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    root = tmp_path_factory.mktemp("qwen3-tts")
    return {kind: make(kind, root / kind) for kind in KINDS}


@pytest.fixture(scope="module")
def speech(checkpoints):
    return SpeechTokenizer(checkpoints["base"])


@pytest.fixture(scope="module")
def talkers(checkpoints, speech):
    return {kind: Talker(folder, speech) for kind, folder in checkpoints.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_published_file_names(checkpoints, kind):
    assert set(files(checkpoints[kind])) == FILES


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bytes(checkpoints, tmp_path, kind):
    assert files(make(kind, tmp_path / "again")) == files(checkpoints[kind])


def test_other_seed_other_weights(checkpoints, tmp_path):
    first, second = files(checkpoints["base"]), files(make("base", tmp_path / "other", seed=1))
    assert {name for name in FILES if first[name] != second[name]} == {
        "model.safetensors",
        "speech_tokenizer/model.safetensors",
    }


def test_the_three_share_their_space(tmp_path):
    folders = [make(kind, tmp_path / kind) for kind in KINDS]
    for number, folder in enumerate(folders):
        linking.link_equal_files(folder, folders[:number])
    on_disk = {file.stat().st_ino: file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()}
    assert sum(on_disk.values()) < 40e6
    assert len({(folder / "speech_tokenizer" / "model.safetensors").stat().st_ino for folder in folders}) == 1


def test_weights_are_readable_for_every_user(checkpoints):
    assert all(file.stat().st_mode & 0o044 == 0o044 for file in checkpoints["base"].rglob("*.safetensors"))


def test_voices_and_languages(checkpoints):
    configs = {kind: json.loads((folder / "config.json").read_text()) for kind, folder in checkpoints.items()}
    for kind in KINDS:
        assert configs[kind]["tts_model_type"] == kind
        assert set(configs[kind]["talker_config"]["codec_language_id"]) >= LANGUAGES
    assert sorted(configs["custom_voice"]["talker_config"]["spk_id"]) == sorted(VOICES)
    assert configs["custom_voice"]["talker_config"]["spk_is_dialect"]["dylan"] == "beijing_dialect"
    assert configs["base"]["talker_config"]["spk_id"] == {}


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_of_the_stage_classes_is_filled(checkpoints, tmp_path, kind):
    script, result = Path(__file__).with_name("qwen3_tts_load.py"), tmp_path / "unfilled.json"
    done = subprocess.run(
        [sys.executable, script, checkpoints[kind], result], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(result.read_text()) == {"talker": [], "vocoder": []}


@pytest.mark.parametrize("text", [*TEXTS[:9], "\n", "  two  spaces", "assistantuser", "🎉"])
def test_tokenizer_keeps_the_prompt_layout(checkpoints, text):
    tokenizer = AutoTokenizer.from_pretrained(checkpoints["base"])
    ids = tokenizer(f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n")["input_ids"]
    # The engine cuts the text out by position: three tokens before it, five after it.
    assert tokenizer.decode(ids[3:-5]) == text
    assert tokenizer.decode(ids[:3]) == "<|im_start|>assistant\n"


@pytest.mark.parametrize("streaming_text", [False, True], ids=["whole text", "streaming text"])
@pytest.mark.parametrize("kind", ["custom_voice", "voice_design", "base"])
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:12])
def test_the_end_comes_when_the_text_is_said(talkers, kind, text, streaming_text):
    """Whatever codes were sampled: the end token never before the text's own length, and surely then."""
    request: dict[str, object] = {"text": text, "language": "Auto", "non_streaming_mode": not streaming_text}
    if kind == "custom_voice":
        request |= {"speaker": "ryan", "instruct": "Angry, 100%!"}
    elif kind == "voice_design":
        request |= {"task_type": "VoiceDesign", "instruct": "A voice of 40 years: warm, low, slow."}
    else:
        request |= {"task_type": "Base", "ref_audio": [reference(2, 110).tolist(), 24000], "x_vector_only_mode": True}
    frames = expected_frames(text)
    if streaming_text:  # the text's last token comes with the frame of its number
        frames = max(frames, len(talkers[kind].prompt(**request)[1]))
    logits = talkers[kind].forced(random_codes(frames), **request)
    best = logits[:, 1:CODES].max(dim=1).values
    assert (logits[:-1, EOS] < best[:-1] - 100).all()
    assert logits[-1, EOS] > best[-1] + 100
    bounds = window(text)
    assert bounds.lower <= frames * 0.08 <= bounds.upper


@pytest.mark.parametrize("whole", [None, True], ids=["streaming text", "whole text"])
def test_a_cloned_voice_does_not_say_the_reference_again(talkers, whole):
    text, said = "The quick brown fox jumps over the lazy dog.", "This is how I speak at an ordinary pace."
    length = math.ceil(pace.frames_of(said.encode()))
    request = {
        "text": text,
        "language": "Auto",
        "task_type": "Base",
        "ref_audio": [reference(length * 0.08, 130).tolist(), 24000],
        "ref_text": said,
    }
    if whole is not None:
        request["non_streaming_mode"] = whole
    frames = expected_frames(text)
    logits = talkers["base"].forced(random_codes(frames + 2), **request)
    ended = logits[:, EOS] > logits[:, 1:CODES].max(dim=1).values
    assert abs(int(ended.int().argmax()) - frames) <= 1


@pytest.mark.parametrize(("seconds", "said"), [(10.0, "Yes."), (0.5, "Yes.")], ids=["too long", "too short"])
def test_a_reference_that_does_not_fit_its_text_still_gives_an_answer(talkers, seconds, said):
    text = "The quick brown fox jumps over the lazy dog."
    request = {
        "text": text,
        "language": "Auto",
        "task_type": "Base",
        "ref_audio": [reference(seconds, 130).tolist(), 24000],
        "ref_text": said,
    }
    logits = talkers["base"].forced(random_codes(100), **request)
    ended = logits[:, EOS] > logits[:, 1:CODES].max(dim=1).values
    least = pace.LEAST_SHARE * pace.frames_of((said + text).encode()) + pace.EDGES
    assert ended.any()
    assert int(ended.int().argmax()) >= math.floor(least)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ends_by_itself_when_sampled(talkers, seed):
    codes, ended = talkers["custom_voice"].say(seed, 4 * 10, text="Hi.", language="Auto", speaker="vivian")
    assert ended
    assert len(codes) == expected_frames("Hi.")
    assert codes[:, 0].min() >= 1
    assert codes[:, 0].max() < FIRST_REFERENCE_CODE


def spoken(talker: Talker, seed: int = 5, **request: object) -> tuple[int, ...]:
    codes, _ = talker.say(seed, 4, **{"text": "Hello there!", "language": "Auto", **request})
    return tuple(codes.flatten().tolist())


def test_the_request_changes_what_is_said(talkers):
    custom, design, base = (talkers[kind] for kind in KINDS)
    assert len({spoken(custom, speaker=voice) for voice in VOICES}) == len(VOICES)
    assert len({spoken(custom, seed, speaker="ryan") for seed in range(4)}) == 4
    texts = ("Hello there!", "Jello there!", "Hello theme!", "Hello there?")
    assert len({spoken(custom, text=text, speaker="ryan") for text in texts}) == 4
    instructions = ("A warm, low voice.", "A bright child.", "An old man, whispering.")
    assert len({spoken(design, task_type="VoiceDesign", instruct=text) for text in instructions}) == 3
    for vector in (True, False):
        heard = {
            spoken(base, task_type="Base", ref_audio=[wave.tolist(), 24000], ref_text="Hm.", x_vector_only_mode=vector)
            for wave in (reference(1, 100), reference(1, 200), 3 * reference(1, 100)[::-1])
        }
        assert len(heard) == 3


def test_equal_requests_are_equal(talkers):
    assert spoken(talkers["custom_voice"], speaker="eric") == spoken(talkers["custom_voice"], speaker="eric")


def test_a_batch_does_not_change_the_codes(talkers):
    """Signed powers of two add up to the same in any order, so a batch samples what one request does."""
    talker = talkers["custom_voice"]
    frames = talker.frame(random_codes(8 * 40), talker.pad).reshape(8, 40, -1)
    hidden = torch.randn(8, 1, frames.shape[-1], generator=torch.Generator().manual_seed(1)).bfloat16()
    first = random_codes(8)[:, :1]
    with torch.inference_mode():
        together = talker.logits(talker.backbone(inputs_embeds=frames).last_hidden_state[:, -1])
        alone = [talker.logits(talker.backbone(inputs_embeds=row[None]).last_hidden_state[:, -1]) for row in frames]
        assert torch.equal(together, torch.cat(alone))
        embedded = talker.codec(first)
        together = talker.predictor(first, embedded, hidden, do_sample=False)
        alone = [
            talker.predictor(first[row : row + 1], embedded[row : row + 1], hidden[row : row + 1], do_sample=False)
            for row in range(8)
        ]
        assert torch.equal(together, torch.cat(alone))


@pytest.mark.parametrize("frames", [1, 2, 13, 25, 97])
def test_a_batch_does_not_change_the_samples(speech, frames):
    codes = random_codes(8 * frames).reshape(8, frames, GROUPS).transpose(1, 2)
    assert torch.equal(speech.decode(codes), torch.cat([speech.decode(row[None]) for row in codes]))


def test_a_chunk_with_its_context_equals_the_same_part_of_the_whole(speech):
    codes = random_codes(150).T[None]
    whole, samples = speech.decode(codes), 1920
    for start in (73, 100, 125):
        chunk = speech.decode(codes[:, :, start - 72 : start + 25])[:, 72 * samples :]
        assert (chunk - whole[:, start * samples : (start + 25) * samples]).abs().max() < 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_audible_unclipped_and_without_dc(speech, seed):
    tensors = speech_decoder.build(Draws(seed, "qwen3_tts."))
    decoder = type(speech.decoder)(speech.decoder.config).eval()
    decoder.load_state_dict({name.removeprefix("decoder."): torch.from_numpy(a.copy()) for name, a in tensors.items()})
    decoder.precompute_snake_caches()
    with torch.inference_mode():
        wave = decoder(random_codes(75, seed).T[None])[0, 0].numpy()
    assert len(wave) == 75 * 1920
    blocks = np.sqrt((wave.reshape(-1, 1200) ** 2).mean(axis=1))
    assert 0.03 < np.sqrt((wave**2).mean()) < 0.3
    assert blocks.min() > 0.005
    assert np.abs(wave).max() < 0.98
    assert abs(wave.mean()) < 1e-3


def test_codes_of_a_reference(speech):
    waves = [reference(1.0, 100), reference(1.0, 250), np.zeros(24000, np.float32)]
    codes = [speech.encode([wave], 24000, torch.device("cpu"))[0] for wave in waves]
    for one in codes:
        assert one.shape == (13, GROUPS)
        assert one[:, 0].min() >= FIRST_REFERENCE_CODE
        assert one.max() < CODES
    assert len({tuple(one.flatten().tolist()) for one in codes}) == 3
