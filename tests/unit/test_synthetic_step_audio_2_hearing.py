"""The synthetic Step-Audio-2-mini: what its audio encoder hears, and the transcripts that follow."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from step_audio_2_kit import checkpoint, continue_from, embed, sounds, tokenizer

from firstword.synthetic.step_audio_2 import language_model, mel, vocabulary
from firstword.synthetic.step_audio_2.language_model import BITS, Channel

# Runs in a process of its own: vLLM-Omni's encoder comes with all of vLLM.
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
np.savez(out, **heard)
"""


@pytest.fixture(scope="module")
def heard(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heard")
    made = sounds()
    np.savez(folder / "sounds.npz", louder=0.5 * made["man"], **made)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"}
    command = [sys.executable, "-c", HEARING, checkpoint(), folder / "sounds.npz", folder / "heard.npz"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return dict(np.load(folder / "heard.npz"))


def test_each_piece_of_audio_casts_whole_votes_and_adds_to_the_budget(heard):
    for name, pieces in heard.items():
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


def test_our_spectrogram_is_the_models():
    import s3tokenizer

    samples = sounds()["woman"]
    theirs = s3tokenizer.log_mel_spectrogram(torch.from_numpy(samples)).numpy()
    # Theirs are centred, and 200 samples are no whole number of steps of 160.
    ours = mel.log_mel(samples[120:].astype(np.float64))
    assert np.abs(ours - theirs[:, 2 : 2 + ours.shape[1]]).max() < 0.001


def test_transcripts_follow_the_recording(heard):
    opening = embed("<|im_start|>user\n<audio_start>")
    closing = embed("<audio_end>Transcribe.<|im_end|>\n<|im_start|>assistant\n")
    texts = {}
    for name in sounds():
        pieces = torch.from_numpy(heard[name])[None].bfloat16()
        said, lead = continue_from(torch.cat([opening, pieces, closing], dim=1))
        assert said[-1] == vocabulary.EOT
        assert lead >= 2, "rounding must not decide"
        texts[name] = tokenizer().decode(said[:-1])
        assert 3 <= len(texts[name].split()) <= 14
    assert len(set(texts.values())) == len(texts), texts
