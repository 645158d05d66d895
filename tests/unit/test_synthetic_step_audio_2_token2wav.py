"""The synthetic Step-Audio-2-mini: its token2wav in the published classes."""

import re
import zipfile

import numpy as np
import torch
from step_audio_2_kit import checkpoint, sounds

from firstword.synthetic.step_audio_2 import flow, mel, vocabulary, weights

# token2wav.


def test_s3tokenizer_loads_the_speech_tokenizer():
    import s3tokenizer

    model = s3tokenizer.load_model(str(checkpoint() / "token2wav/speech_tokenizer_v2_25hz.onnx")).eval()
    heights = {name: float(value.detach().abs().max()) for name, value in model.named_parameters()}
    assert {heights[name] for name in heights if name.endswith("attn.out.weight")} == {1.0}
    assert {heights[name] for name in heights if name.endswith("_ln.weight")} == {1 / 32}
    assert 0 < heights["quantizer._codebook.project_down.weight"] < 0.001
    spectra = torch.stack(
        [torch.from_numpy(mel.log_mel(sounds()[name].astype(float))).float() for name in ("man", "noise 0")]
    )
    codes, lengths = model.quantize(spectra, torch.tensor([spectra.shape[2]] * 2))
    assert lengths.tolist() == [50, 50]
    assert codes.min() >= 0
    assert codes.max() < vocabulary.SPEECH_CODES
    assert not torch.equal(codes[0], codes[1])


def test_the_speaker_model_tells_voices_apart():
    import onnxruntime

    session = onnxruntime.InferenceSession(checkpoint() / "token2wav/campplus.onnx", providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    spread = np.linspace(1, 4, 80)
    voices = [random.standard_normal((1, frames, 80)) * shape for frames, shape in ((100, spread), (70, spread[::-1]))]
    embeddings = []
    for features in voices:
        centred = (features - features.mean(axis=1, keepdims=True)).astype(np.float32)
        embeddings.append(session.run(None, {session.get_inputs()[0].name: centred})[0])
    assert embeddings[0].shape == (1, 192)
    assert np.corrcoef(*(e[0] for e in embeddings))[0, 1] < 0.5


def test_flow_yaml_names_the_published_classes():
    text = (checkpoint() / "token2wav/flow.yaml").read_text()
    assert re.findall(r"!new:(\S+)", text) == [
        "cosyvoice2.flow.flow.CausalMaskedDiffWithXvec",
        "cosyvoice2.transformer.upsample_encoder_v2.UpsampleConformerEncoderV2",
        "cosyvoice2.flow.flow_matching.CausalConditionalCFM",
        "cosyvoice2.flow.decoder_dit.DiT",
    ]


def load(path):
    return torch.load(path, map_location="cpu", weights_only=True)


def test_flow_and_vocoder_have_the_classes_own_tensors():
    from flashcosyvoice.modules.hifigan import HiFTGenerator
    from hyperpyyaml import load_hyperpyyaml

    with torch.device("meta"):
        published_flow = weights.shapes(load_hyperpyyaml((checkpoint() / "token2wav/flow.yaml").read_text())["flow"])
        published_hift = weights.shapes(HiFTGenerator())
    held_flow, held_hift = (load(checkpoint() / "token2wav" / name) for name in ("flow.pt", "hift.pt"))
    assert {k: tuple(v.shape) for k, v in held_flow.items()} == published_flow
    assert all(name.startswith("generator.") for name in held_hift)
    assert {k.removeprefix("generator."): tuple(v.shape) for k, v in held_hift.items()} == published_hift
    assert all(bool(v.isfinite().all()) for v in (*held_flow.values(), *held_hift.values()))


@torch.no_grad()
def test_the_estimator_leads_to_its_target():
    from cosyvoice2.flow.decoder_dit import DiT

    estimator = DiT(
        in_channels=320, out_channels=80, mlp_ratio=0.25, depth=1, num_heads=8, head_dim=64, hidden_size=512
    )
    held = load(checkpoint() / "token2wav/flow.pt")
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
def test_the_vocoder_speaks_at_a_level_and_pitch_of_its_own():
    from flashcosyvoice.modules.hifigan import HiFTGenerator

    hift = HiFTGenerator()
    held = load(checkpoint() / "token2wav/hift.pt")
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


def test_the_folders_name_changes_no_byte(tmp_path):
    """torch.save writes a path that is not ASCII another way; a folder's name is no part of a checkpoint."""
    written = []
    for name in ("plain", "\u00fcn\u00ef c\u00f6d\u00e9"):
        (tmp_path / name).mkdir()
        weights.save(tmp_path / name / "flow.pt", {"a": (2, 3)}, {"a": 0.5}, "x.")
        written.append((tmp_path / name / "flow.pt").read_bytes())
    assert written[0] == written[1]
    # As torch itself writes it at an ordinary path.
    torch.save({"x.a": torch.full((1,), 0.5, dtype=torch.float16)[0].expand(2, 3)}, tmp_path / "flow.pt")
    assert written[0] == (tmp_path / "flow.pt").read_bytes()
    assert zipfile.ZipFile(tmp_path / "plain/flow.pt").namelist()[0] == "flow/data.pkl"
