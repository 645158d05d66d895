"""Checks on the first stage: tokenizer, audio lengths, and where chunks are cut."""

import concurrent.futures
import hashlib
import json
import os
from collections import defaultdict, deque
from pathlib import Path
from threading import Condition
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

CHECKPOINT = os.environ["CHECKPOINT"]
TEXT = "<audio_patch> What do you hear? Please answer in a few words, 1 2 3."


def tokenizer() -> dict[str, Any]:
    from vllm_omni.model_executor.models.step_audio2 import step_audio2_thinker as module

    loads = 0
    load = module.AutoTokenizer.from_pretrained

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal loads
        loads += 1
        return load(*args, **kwargs)

    module.AutoTokenizer.from_pretrained = counting
    context = SimpleNamespace(model_config=SimpleNamespace(model=CHECKPOINT))
    infos = [module.StepAudio2ProcessingInfo(context) for _ in range(2)]

    def use(n: int) -> list[int]:
        # Truncation is state of a fast tokenizer: two threads must not meet in one.
        processor = infos[n % 2].get_hf_processor()
        encoded = processor(TEXT, truncation=n % 2 == 0, max_length=500 + n, return_tensors="pt")
        return encoded["input_ids"].flatten().tolist()

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        results = list(threads.map(use, range(4)))
    shared = loads
    infos[0].get_tokenizer(padding_side="left")
    return {
        "loads for 4 uses": shared,
        "loads anew with arguments": loads - shared,
        "threads agree": all(result == results[0] for result in results),
        "ids": hashlib.sha256(str(results[0]).encode()).hexdigest()[:16],
        "vocabulary": len(infos[0].get_tokenizer()),
    }


class HostReads(TorchDispatchMode):
    """Count reads of a single number, which make the host wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)
        return func(*args, **(kwargs or {}))


def _encoder() -> Any:
    """Return the model with its audio encoder and adapter only."""
    from safetensors.torch import load_file
    from vllm_omni.model_executor.models.step_audio2 import step_audio2_thinker as module

    weights: dict[str, torch.Tensor] = {}
    for file in Path(CHECKPOINT).glob("*.safetensors"):
        weights |= load_file(file)
    config = json.loads((Path(CHECKPOINT) / "config.json").read_text())["audio_encoder_config"]
    model = module.StepAudio2ThinkerForConditionalGeneration.__new__(module.StepAudio2ThinkerForConditionalGeneration)
    torch.nn.Module.__init__(model)
    sizes = {
        name: config[f"n_{'audio_' if name != 'mels' else ''}{name}"]
        for name in ("mels", "ctx", "state", "head", "layer")
    }
    model.encoder = module.AudioEncoder(**{f"n_{name}": size for name, size in sizes.items()})
    model.adapter = module.Adaptor(n_state=sizes["state"], n_hidden=config["llm_dim"])
    for name in ("encoder", "adapter"):
        part = {k.removeprefix(f"{name}."): v.float() for k, v in weights.items() if k.startswith(f"{name}.")}
        getattr(model, name).load_state_dict(part)
    return model.float()


def audio_lengths() -> dict[str, Any]:
    from vllm_omni.model_executor.models.step_audio2 import step_audio2_thinker as module

    model = _encoder()
    reads, shapes = {}, {}
    total = hashlib.sha256()
    tolist = torch.Tensor.tolist
    for count in (1, 4, 8):
        audio = [torch.sin(torch.arange(4000 + 900 * n) * (0.05 + 0.01 * n)) for n in range(count)]
        mels, lengths = module.padding_mels([module.log_mel_spectrogram(a) for a in audio])
        with torch.inference_mode(), HostReads() as mode:

            def counting(tensor: torch.Tensor, mode: HostReads = mode) -> Any:
                mode.count += 1  # on a CPU, tolist needs no operator that the mode could see
                return tolist(tensor)

            torch.Tensor.tolist = counting
            try:
                features = model._process_audio_input({"audio_mels": mels, "audio_lens": lengths})
            finally:
                torch.Tensor.tolist = tolist
        reads[str(count)] = mode.count
        shapes[str(count)] = [f.shape[0] for f in features]
        for feature in features:
            total.update(feature.numpy().tobytes())
    return {"reads": reads, "lengths": shapes["8"], "features": total.hexdigest()[:16]}


def never_captured() -> dict[str, Any]:
    """Where `_process_audio_input` can run at all."""
    from vllm.model_executor.models.interfaces import supports_encoder_cudagraph
    from vllm_omni.model_executor.models.step_audio2 import step_audio2_thinker as module

    cls = module.StepAudio2ThinkerForConditionalGeneration
    model = _encoder()
    calls = []
    model._process_audio_input = lambda audio: calls.append("encoder") or [torch.zeros(1, 1)]

    class Language(torch.nn.Module):
        def forward(self, *_: Any, **__: Any) -> torch.Tensor:
            return torch.zeros(1, 1)

        def embed_input_ids(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.zeros(ids.numel(), 1)

    model.language_model = Language()
    ids = torch.zeros(3, dtype=torch.long)
    model.forward(ids, ids, inputs_embeds=torch.zeros(3, 1))
    model.forward(ids, ids)
    captured = list(calls)
    audio = {"audio_mels": torch.zeros(1, 128, 10), "audio_lens": torch.tensor([10])}
    model.embed_multimodal(**audio, audio_pieces=torch.tensor([1]))
    return {
        "vLLM can capture its encoder": bool(supports_encoder_cudagraph(cls)),
        "runs in the captured forward": captured,
        "runs in embed_multimodal": calls,
    }


def chunk_ends() -> dict[str, Any]:
    return {"in time": _sent(lag=0), "late": _sent(lag=60), "a little late": _sent(lag=9)}


def _sent(lag: int, tokens: int = 60) -> list[int]:
    """Return the sizes of the chunks sent when the background thread runs `lag` steps behind."""
    from vllm_omni.distributed.omni_connectors.transfer_adapter import chunk_transfer_adapter as module
    from vllm_omni.model_executor.models.step_audio2.step_audio2_constants import DEFAULT_TOKEN_CONFIG
    from vllm_omni.model_executor.stage_input_processors import step_audio2 as processors

    adapter = module.OmniChunkTransferAdapter.__new__(module.OmniChunkTransferAdapter)
    sent: list[int] = []

    def put(data: Any, **_: Any) -> tuple[bool, int, None]:
        audio = data.codes.audio if data.codes is not None else None
        if audio is not None and audio.numel():
            sent.append(audio.numel())
        return True, 0, None

    adapter.connector = SimpleNamespace(stage_id=0, put=put)
    adapter.custom_process_next_stage_input_func = processors.thinker2token2wav_async_chunk
    for name in ("put_req_chunk", "get_req_chunk", "ramp_chunk_count", "requests_num_chunks_sent"):
        setattr(adapter, name, defaultdict(int))
    adapter.code_prompt_token_ids = defaultdict(list)
    adapter._pending_save_reqs, adapter._save_cond = deque(), Condition()
    adapter._failed_sends = set()
    adapter.cleanup = lambda *_: None
    request = SimpleNamespace(
        request_id="r",
        external_req_id="r",
        prompt_token_ids=[1, 2],
        all_token_ids=[1, 2],
        num_computed_tokens=2,
        num_tokens=2,
        resumable=False,
        finished=False,
        status=None,
    )
    request.is_finished = lambda: request.finished
    for n in range(tokens + 1):
        request.finished = n == tokens
        request.all_token_ids.append(1 if request.finished else DEFAULT_TOKEN_CONFIG.audio_start + n)
        request.num_tokens = len(request.all_token_ids)
        request.num_computed_tokens += 1
        adapter.save_async(None, request, request.finished)
        while len(adapter._pending_save_reqs) > lag:
            adapter._send_single_request(adapter._pending_save_reqs.popleft())
    while adapter._pending_save_reqs:
        adapter._send_single_request(adapter._pending_save_reqs.popleft())
    return sent
