"""Step-Audio-2: hearing, and the second stage's chunks.

Published sizes: the checkpoint's 832 tensors are 28 layers of 12 and 3 of the language model, 32 layers of 15 and 7
of the audio encoder and 6 of its adapter; widths as in its configuration. The vocoder's are its class's defaults.
"""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.nn.utils import parametrize

from firstword.bench.gpu_check.case import Call, Case, Output, Quiet, Sizes, floats, module, noise
from firstword.bench.gpu_check.cutting import Cutter
from firstword.bench.gpu_check.runner import to_host
from firstword.bench.gpu_check.sources import PATCHED

_MODELS = "vllm_omni/model_executor/models/step_audio2"
_THINKER = f"{_MODELS}/step_audio2_thinker.py"
_TOKEN2WAV = f"{_MODELS}/step_audio2_token2wav.py"
_PROCESSOR = "vllm_omni/model_executor/stage_input_processors/step_audio2.py"
_HIFT = "flashcosyvoice/modules/hifigan.py"
MEL = 80
_AUDIO_START, _AUDIO_EOS = 151696, 6561
_CHUNK, _LOOKAHEAD = 25, 3
_STREAM = SimpleNamespace(
    chunk_size=_CHUNK,
    pre_lookahead_len=_LOOKAHEAD,
    up_rate=2,
    mel_cache_len=8,
    n_timesteps=10,
    estimator_cache_keep=100,
)
_SAMPLES = 480  # of one mel frame


def _hear(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    thinker = "StepAudio2ThinkerForConditionalGeneration"
    process = cutter.cut(_THINKER, f"{thinker}._process_audio_input")
    encoder, adapter = cutter.cut(_THINKER, "AudioEncoder", "Adaptor")
    dtype = floats(device)
    names = ("n_ctx", "n_state", "n_head", "n_layer")
    model = SimpleNamespace(
        device=device,
        dtype=dtype,
        encoder=module(lambda: encoder(n_mels=128, **{name: sizes[name] for name in names}), device, dtype),
        adapter=module(lambda: adapter(n_state=sizes["n_state"], n_hidden=sizes["hidden"]), device, dtype),
    )
    count, frames = sizes["requests"], sizes["frames"]
    mels = noise(count, 128, frames, seed=1, device=device, dtype=dtype)
    lengths = torch.full((count,), frames).to(device)
    return lambda: process(model, {"audio_mels": mels, "audio_lens": lengths})


def _speak(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    """One stream of three chunks, through the stage's forward and the runner's copy to the host."""
    stage, core = "StepAudio2Token2WavForConditionalGeneration", "StepAudio2Token2WavCore"
    given: dict[str, Any] = {
        "logger": Quiet(),
        "OmniOutput": Output,
        "DEFAULT_STREAM_CONFIG": _STREAM,
        "DEFAULT_TOKEN2WAV_CONFIG": SimpleNamespace(sample_rate=24000, n_timesteps=10),
    }
    patched = cutter.side == PATCHED
    of_stage = ["forward", *(("_stream_chunk", "_noise_generator") if patched else ("_forward_async_chunk",))]
    of_core = ["setup_stream_for", "stream_chunk_for", *(() if patched else ("reset_stream_for",))]
    owners = {**dict.fromkeys(of_stage, stage), **dict.fromkeys(of_core, core)}
    cuts = cutter.cut(_TOKEN2WAV, *(f"{owner}.{name}" for name, owner in owners.items()), **given)
    functions = dict(zip(owners, cuts, strict=True))
    flow, vocoder = _flow(device, sizes), _vocoder()
    runner = to_host(cutter, device)
    tokens = [(torch.arange(count) * 37 % 6000 + 1).to(torch.int32).to(device) for count in (28, 28, 10)]
    voice = __file__  # any file: its content is in the cache
    prompt = noise(1, 2 * _CHUNK, MEL, seed=3, device=device)
    known = (torch.ones(1, _CHUNK, dtype=torch.int32).to(device), None, None, prompt, None)

    def call() -> Any:
        token2wav = SimpleNamespace(
            cache={voice: known},
            device=device,
            float16=False,
            flow=flow,
            hift=vocoder,
            mel_cache_len=8,
            n_timesteps=10,
            source_cache_len=8 * _SAMPLES,
            speech_window=window,
            _after_prompt=None,
            _ensure_models_loaded=lambda: None,
        )
        for name in of_core:
            _bind(token2wav, name, functions[name])
        model = SimpleNamespace(token2wav=token2wav, _default_prompt_wav=voice, _stream_states=states())
        for name in of_stage:
            _bind(model, name, functions[name])
        audio = []
        for place, ids in enumerate(tokens):
            mark = {"left_context_size": int(place == len(tokens) - 1)}
            # The release looks for its mark on another level than where it is put.
            output = model.forward(
                ids,
                None,
                runtime_additional_information=[{**mark, "meta": mark}],
                request_ids=["r"],
                request_seeds=[42],
                seq_token_counts=[len(ids)],
            )
            audio += runner(["r"], {"model_outputs": output.multimodal_outputs["model_outputs"]})
        return audio

    window = torch.from_numpy(np.hamming(16 * _SAMPLES)).to(torch.float32).to(device)
    states: Any = dict if patched else list
    return call


def _bind(owner: SimpleNamespace, name: str, function: Any) -> None:
    if isinstance(function, staticmethod):
        setattr(owner, name, function.__func__)
    else:
        setattr(owner, name, lambda *args, **kwargs: function(owner, *args, **kwargs))


def _flow(device: torch.device, sizes: Sizes) -> Any:
    """Two mel frames of each token, by an embedding; what is looked at ahead is cut off but in the last chunk."""
    table = module(lambda: torch.nn.Embedding(_AUDIO_EOS, 2 * MEL), device, torch.float32)
    depth = sizes["depth"]

    def chunk(token: torch.Tensor, spk: Any, cache: Any, last_chunk: bool, n_timesteps: int) -> Any:
        mel = table(token if last_chunk else token[:, :_CHUNK]).reshape(1, -1, MEL).transpose(1, 2)
        kept = torch.cat(
            [cache["estimator_att_cache"], torch.zeros((1, depth, 2, 8, mel.shape[2], 16), device=device)], 4
        )
        return mel, {"estimator_att_cache": kept}

    def begin(*_: Any, **__: Any) -> Any:
        return {"estimator_att_cache": torch.zeros((1, depth, 2, 8, 2 * _CHUNK, 16), device=device)}

    return SimpleNamespace(inference_chunk=chunk, setup_cache=begin)


def _vocoder() -> Any:
    """480 samples of each mel frame, its mean; the source that is given is kept."""

    def vocode(mel: torch.Tensor, source: torch.Tensor, generator: Any = None) -> Any:
        speech = mel.mean(1).repeat_interleave(_SAMPLES, dim=1, output_size=mel.shape[2] * _SAMPLES)
        return speech, torch.cat([source, speech[:, None, source.shape[2] :]], 2)

    return vocode


def _chunks(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    """The processor between the stages, once for each token that the first one makes."""
    process = cutter.cut(
        _PROCESSOR,
        "thinker2token2wav_async_chunk",
        CodesStruct=lambda **fields: fields,
        MetaStruct=lambda **fields: fields,
        OmniPayloadStruct=lambda **fields: fields,
        DEFAULT_STREAM_CONFIG=_STREAM,
        DEFAULT_TOKEN_CONFIG=SimpleNamespace(audio_start=_AUDIO_START, audio_eos=_AUDIO_EOS),
    )
    prompt = list(range(sizes["prompt"]))
    made = [_AUDIO_START + (37 * n) % 6000 for n in range(sizes["tokens"])]

    def call() -> Any:
        manager = SimpleNamespace(code_prompt_token_ids=defaultdict(list), task_num_tokens=None)
        ids = list(prompt)
        request = SimpleNamespace(
            all_token_ids=ids, prompt_token_ids=prompt, external_req_id="r", is_finished=lambda: False
        )
        sent = []
        for n, token in enumerate(made, start=1):
            ids.append(token)
            sent.append(process(manager, None, request, n == len(made)))
        return [payload for payload in sent if payload is not None]

    return call


def _inverse_stft(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    istft = cutter.cut(_HIFT, "HiFTGenerator._istft")
    vocoder = SimpleNamespace(istft_params={"n_fft": 16, "hop_len": 4}, stft_window=torch.hann_window(16).to(device))
    frames = sizes["mel_frames"] * _SAMPLES // 4 + 1
    magnitude = noise(1, 9, frames, seed=1, device=device).exp()
    phase = noise(1, 9, frames, seed=2, device=device).sin()
    return lambda: istft(vocoder, magnitude, phase)


def _vocode(cutter: Cutter, device: torch.device, sizes: Sizes) -> Call:
    generator = cutter.cut(_HIFT, "HiFTGenerator", get_window=_window)
    vocoder = module(lambda: generator(base_channels=sizes["channels"]), device, torch.float32)
    if cutter.side == PATCHED:  # as the patched `_ensure_models_loaded` does
        for part in list(vocoder.modules()):
            if parametrize.is_parametrized(part, "weight"):
                parametrize.remove_parametrizations(part, "weight")
    mel = noise(1, MEL, sizes["mel_frames"], seed=1, device=device)
    source = torch.zeros(1, 1, 0, device=device)

    def call() -> Any:
        torch.manual_seed(0)
        return vocoder(mel, source)

    return call


def _window(kind: str, length: int, *, fftbins: bool) -> Any:
    """SciPy's periodic Hann window."""
    return np.hanning(length + 1)[:-1]


CASES = (
    Case(
        "hearing",
        "`_process_audio_input` with its encoder and adapter: audios of equal length",
        ("vllm-omni/0002-audio-lengths-in-one-read.patch", "vllm-omni/0012-long-audio-in-pieces.patch"),
        {"requests": 8, "frames": 1000, "n_ctx": 1500, "n_state": 1280, "n_head": 20, "n_layer": 32, "hidden": 3584},
        {"requests": 8, "frames": 60, "n_ctx": 1500, "n_state": 32, "n_head": 2, "n_layer": 2, "hidden": 32},
        _hear,
    ),
    Case(
        "a stream of three chunks",
        "`forward` of token2wav and the runner's `sample_tokens`: ids in, audio on the host out",
        (
            "vllm-omni/0005-stream-tokens-stay-on-device.patch",
            "vllm-omni/0004-stream-state-by-request.patch",
            "vllm-omni/0045-one-copy-for-a-step.patch",
            "vllm-omni/0049-a-voice-is-prepared-once.patch",
        ),
        {"depth": 16},
        {"depth": 1},
        _speak,
        "an embedding for the flow, a mean for the vocoder: times are of what is around them",
    ),
    Case(
        "chunks between the stages",
        "`thinker2token2wav_async_chunk`, once for each token; on the host alone",
        ("vllm-omni/0048-each-audio-token-is-read-once.patch",),
        {"prompt": 300, "tokens": 400},
        {"prompt": 40, "tokens": 70},
        _chunks,
        "dictionaries for the payload's classes",
    ),
    Case(
        "inverse STFT",
        "`HiFTGenerator._istft` of one chunk",
        ("step-audio2/0004-vocoder-does-not-ask-the-device.patch",),
        {"mel_frames": 58},
        {"mel_frames": 8},
        _inverse_stft,
    ),
    Case(
        "vocoder",
        "`HiFTGenerator.forward` of one chunk, without a generator; patched with its weights folded",
        (
            "step-audio2/0003-vocoder-takes-a-generator.patch",
            "step-audio2/0004-vocoder-does-not-ask-the-device.patch",
            "vllm-omni/0050-vocoder-weights-are-folded.patch",
        ),
        {"mel_frames": 58, "channels": 512},
        {"mel_frames": 8, "channels": 16},
        _vocode,
        "SciPy's window is made with NumPy; the weights are folded by the same five lines, which load files too",
    ),
)
