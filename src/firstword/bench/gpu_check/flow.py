"""Step-Audio-2's flow: two chunks of a stream through the estimator, with its caches.

Sizes: 16 blocks of 512, 8 heads of 64, and MLPs of 4 times the width make 114 million numbers; with the encoder that
is the 623 MB of the published flow.pt. The release's buffers are of this size alone, so nothing smaller can run.
"""

from typing import Any

import torch

from firstword.bench.gpu_check.case import Call, Case, Sizes, module, noise
from firstword.bench.gpu_check.cutting import Cutter

_FLOW = "cosyvoice2/flow"
_MEL = 80


def _pack(tensors: list[torch.Tensor], pattern: str) -> tuple[torch.Tensor, None]:
    """What einops.pack is for the one pattern that is asked for: join along the second axis."""
    assert pattern == "b * t"
    return torch.cat(tensors, dim=1), None


def _repeat(tensor: torch.Tensor, pattern: str, t: int) -> torch.Tensor:
    """What einops.repeat is for the one pattern that is asked for: the same at each of `t` places."""
    assert pattern == "b c -> b c t"
    return tensor[:, :, None].expand(-1, -1, t)


def _two_chunks(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    estimator = cutter.cut(f"{_FLOW}/decoder_dit.py", "DiT", pack=_pack, repeat=_repeat)
    matching = cutter.cut(f"{_FLOW}/flow_matching.py", "CausalConditionalCFM")

    def build() -> Any:
        dit = estimator(
            in_channels=4 * _MEL, out_channels=_MEL, depth=16, num_heads=8, head_dim=64, hidden_size=512, mlp_ratio=4.0
        )
        for block in dit.blocks:  # published weights do not leave the blocks' gates shut, as new ones do
            torch.nn.init.normal_(block.adaLN_modulation[-1].weight, std=0.02)
        torch.nn.init.normal_(dit.final_layer.linear.weight, std=0.02)
        return matching(dit)

    flow = module(build, device, torch.float32)
    frames, steps = sizes["frames"], sizes["steps"]
    flow.rand_noise = noise(1, _MEL, 2 * frames, seed=1, device=device)
    speaker = noise(1, _MEL, seed=2, device=device)
    nothing = torch.zeros(1, _MEL, frames, device=device)
    chunks = [noise(1, _MEL, frames, seed=seed, device=device) for seed in (3, 4)]

    def call() -> Any:
        convolutions = attention = None
        mels = []
        for mu in chunks:
            mel, convolutions, attention = flow.forward_chunk(
                mu=mu, spks=speaker, cond=nothing, n_timesteps=steps, cnn_cache=convolutions, att_cache=attention
            )
            mels.append(mel)
        return mels

    return call


CASES = (
    Case(
        "flow",
        "`CausalConditionalCFM.forward_chunk` with its estimator: two chunks of a stream",
        ("step-audio2/0001-flow-caches-belong-to-the-stream.patch",),
        {"frames": 50, "steps": 10},
        None,
        _two_chunks,
        "a join and a repetition for einops; one noise for both sides, which patch 0002 changes by intent",
    ),
)
