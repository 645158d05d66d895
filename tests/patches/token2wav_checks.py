"""Checks on the second stage: flow, vocoder and the wrapper the runner calls."""

import asyncio
import functools
import hashlib
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

CHECKPOINT = os.environ["CHECKPOINT"]
CHUNK, LOOKAHEAD = 25, 3
TOKENS = [(37 * n) % 6000 + 1 for n in range(40)]
OTHERS = [(91 * n) % 6000 + 7 for n in range(40)]


def digest(*tensors: torch.Tensor) -> str:
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.detach().contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def chunks(tokens: list[int]) -> Iterator[tuple[list[int], bool]]:
    """Cut as the stage input processor cuts: 25 tokens and 3 to look ahead; the last has the rest."""
    done = 0
    while len(tokens) - done > CHUNK + LOOKAHEAD:
        yield tokens[done : done + CHUNK + LOOKAHEAD], False
        done += CHUNK
    yield tokens[done:], True


@functools.cache
def stage() -> Any:
    from vllm_omni.model_executor.models.step_audio2 import step_audio2_token2wav as module

    config = SimpleNamespace(
        model_config=SimpleNamespace(hf_config=SimpleNamespace(), model=CHECKPOINT),
        device_config=SimpleNamespace(device="cpu"),
    )
    return module.StepAudio2Token2WavForConditionalGeneration(vllm_config=config)


def step(request: str, ids: list[int] | torch.Tensor, last: bool, seed: int | None) -> dict[str, list[torch.Tensor]]:
    """One forward pass as the runner makes it, the marker where the connector puts it."""
    output = stage().forward(
        torch.as_tensor(ids),
        None,
        runtime_additional_information=[{"meta": {"left_context_size": int(last)}, "generated_len": 0}],
        request_ids=[request],
        request_seeds=[seed],
        seq_token_counts=[len(ids)],
    )
    return output.multimodal_outputs


def stream(request: str, tokens: list[int], seed: int | None = 5) -> torch.Tensor:
    parts = [step(request, ids, last, seed)["model_outputs"][0] for ids, last in chunks(tokens)]
    return torch.cat(parts)


def whole(tokens: list[int], seed: int | None = 5) -> torch.Tensor:
    return whole_output(tokens, seed)["model_outputs"][0]


def finish(*requests: str) -> None:
    """What the runner does when requests have finished or were aborted."""
    if hasattr(stage(), "on_requests_finished"):
        stage().on_requests_finished(set(requests))


# The flow.


def _mels(stream_of: list[list[int]]) -> list[torch.Tensor]:
    """Return each stream's mel frames, the streams' chunks taking turns."""
    core = stage().token2wav
    prompt = stage()._default_prompt_wav
    states = []
    for _ in stream_of:
        state = SimpleNamespace()
        core.setup_stream_for(prompt, state)
        states.append(state)
    speaker = core.cache[prompt][2]
    out: list[list[torch.Tensor]] = [[] for _ in stream_of]
    for turn in zip(*(list(chunks(tokens)) for tokens in stream_of), strict=True):
        for mels, state, (ids, last) in zip(out, states, turn, strict=True):
            mel, state.stream_cache = core.flow.inference_chunk(
                token=torch.tensor([ids], dtype=torch.int32),
                spk=speaker,
                cache=state.stream_cache,
                last_chunk=last,
                n_timesteps=core.n_timesteps,
            )
            mels.append(mel.clone())
    return [torch.cat(mels, dim=2) for mels in out]


def flow_caches() -> dict[str, Any]:
    torch.manual_seed(0)  # before the flow loads: as released it draws its noise then
    (alone,) = _mels([TOKENS])
    one, _ = _mels([TOKENS, OTHERS])
    flow = stage().token2wav.flow
    return {
        "alone": digest(alone),
        "as alone when interleaved": torch.equal(one, alone),
        "buffers, MB": round(sum(b.numel() * b.element_size() for b in flow.buffers()) / 1e6),
    }


def flow_noise() -> dict[str, Any]:
    from cosyvoice2.flow.flow_matching import CausalConditionalCFM

    estimator = torch.nn.Module()
    estimator.out_channels = 80
    torch.manual_seed(1)
    first = CausalConditionalCFM(estimator).rand_noise
    before = torch.get_rng_state()
    second = CausalConditionalCFM(estimator).rand_noise
    return {
        "constant": torch.equal(first, second),
        "global generator untouched": torch.equal(torch.get_rng_state(), before),
        "mean and deviation": [round(first.mean().item(), 2), round(first.std().item(), 2)],
    }


# The vocoder.


def vocoder() -> dict[str, Any]:
    hift = stage().token2wav.hift
    mel = torch.randn(1, 80, 30, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    plain = hift(mel)[0]
    before = torch.get_rng_state()
    seeded = [hift(mel, generator=torch.Generator().manual_seed(seed))[0] for seed in (7, 7, 8)]
    return {
        "without a generator": digest(plain),
        "equal with equal seeds": torch.equal(seeded[0], seeded[1]),
        "other with another seed": not torch.equal(seeded[0], seeded[2]),
        "global generator untouched": torch.equal(torch.get_rng_state(), before),
    }


def vocoder_without_a_generator() -> dict[str, Any]:
    hift = stage().token2wav.hift
    torch.manual_seed(0)
    return {"audio": digest(hift(torch.randn(1, 80, 30))[0])}


# The wrapper.


def marker() -> dict[str, Any]:
    """Through the real input processor and the connector's serializer, as the adapter unpacks it."""
    from vllm_omni.distributed.omni_connectors.utils.serialization import OmniSerializer
    from vllm_omni.model_executor.models.step_audio2.step_audio2_constants import DEFAULT_TOKEN_CONFIG
    from vllm_omni.model_executor.stage_input_processors.step_audio2 import thinker2token2wav_async_chunk

    manager = SimpleNamespace(code_prompt_token_ids={"r": []}, task_num_tokens=None)
    samples, paths = 0, []
    for count in range(1, len(TOKENS) + 1):
        finished = count == len(TOKENS)
        ids = [1, 2, *(token + DEFAULT_TOKEN_CONFIG.audio_start for token in TOKENS[:count])]
        request = SimpleNamespace(
            external_req_id="r", all_token_ids=ids, prompt_token_ids=[1, 2], is_finished=lambda done=finished: done
        )
        payload = thinker2token2wav_async_chunk(manager, None, request, finished)
        if payload is None:
            continue
        received = OmniSerializer.deserialize(OmniSerializer.serialize(payload))
        tokens = received["codes"]["audio"].tolist()
        info = {"meta": {k: v for k, v in received["meta"].items() if k != "finished"}}
        output = stage().forward(
            torch.tensor(tokens),
            None,
            runtime_additional_information=[info],
            request_ids=["r"],
            request_seeds=[5],
        )
        samples += output.multimodal_outputs["model_outputs"][0].numel()
        paths.append(len(tokens))
    return {"tokens": len(TOKENS), "chunks": paths, "samples": samples}


def states() -> dict[str, Any]:
    alone = stream("alone", TOKENS)
    step("leaves", *next(chunks(OTHERS)), 5)
    finish("leaves")
    after = stream("after", TOKENS)
    parts: dict[str, list[torch.Tensor]] = {"one": [], "two": []}
    for turn in zip(chunks(TOKENS), chunks(OTHERS), strict=True):
        for name, (ids, last) in zip(parts, turn, strict=True):
            parts[name].append(step(name, ids, last, 5)["model_outputs"][0])
    return {
        "samples after a client left": after.numel(),
        "same as alone after a client left": torch.equal(after, alone),
        "samples when interleaved": [torch.cat(p).numel() for p in parts.values()],
        "same as alone when interleaved": torch.equal(torch.cat(parts["one"]), alone),
        "states left": len(stage()._stream_states),
    }


def tokens_on_device() -> dict[str, Any]:
    """Count what brings ids to the host, and look at what the flow gets."""
    core = stage().token2wav
    begin("warm", TOKENS, 5)
    finish("warm")
    inference_chunk = core.flow.inference_chunk
    seen: list[torch.Tensor] = []
    reads = 0
    buffer = torch.zeros(64, dtype=torch.int32)

    def count(original: Any) -> Any:
        def counting(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            nonlocal reads
            reads += not tensor.is_floating_point() and tensor.numel() > 3
            return original(tensor, *args, **kwargs)

        return counting

    def spy(token: torch.Tensor, **kwargs: Any) -> Any:
        seen.append(token)
        buffer.zero_()  # the runner reuses its input buffer
        return inference_chunk(token=token, **kwargs)

    core.flow.inference_chunk = spy
    names = ("tolist", "cpu", "numpy", "item")
    originals = {name: getattr(torch.Tensor, name) for name in names}
    torch.manual_seed(0)
    try:
        for name in names:
            setattr(torch.Tensor, name, count(originals[name]))
        audio = []
        for ids, last in chunks(TOKENS):
            buffer[: len(ids)] = torch.tensor(ids, dtype=torch.int32)
            audio.append(step("r", buffer[: len(ids)], last, 5)["model_outputs"][0])
    finally:
        for name in names:
            setattr(torch.Tensor, name, originals[name])
    storage = buffer.untyped_storage().data_ptr()
    return {
        "reads of ids": reads,
        "shapes": [list(t.shape) for t in seen],
        "types": sorted({str(t.dtype) for t in seen}),
        "aliases the input buffer": any(t.untyped_storage().data_ptr() == storage for t in seen),
        "audio": digest(*audio),
    }


def sample_rate() -> dict[str, Any]:
    """Through the server's own streaming generator, to the first bytes of a WAV."""
    from vllm_omni.entrypoints.openai.serving_speech import OmniOpenAIServingSpeech

    server = OmniOpenAIServingSpeech.__new__(OmniOpenAIServingSpeech)
    server._tts_model_type = "step_audio2"
    server._request_ref_audio_artifact_keys = {}
    (ids, last) = next(chunks(TOKENS))
    streamed, full = step("r", ids, last, 5), whole_output(TOKENS)

    async def outputs() -> Any:
        yield SimpleNamespace(multimodal_output={key: value[0] for key, value in streamed.items()})

    async def collect() -> list[bytes]:
        return [chunk async for chunk in server._generate_audio_chunks(outputs(), "r", response_format="wav")]

    rates = [[int(rate) for rate in out.get("sr", [])] for out in (streamed, full)]
    header = asyncio.run(collect())[0]
    return {
        "reported": rates,
        "container": header[:4].decode(),
        "rate in the header": int.from_bytes(header[24:28], "little"),
    }


def whole_output(tokens: list[int], seed: int | None = 5) -> dict[str, list[torch.Tensor]]:
    output = stage().forward(
        torch.tensor(tokens), None, runtime_additional_information=[{}], request_seeds=[seed], request_ids=["whole"]
    )
    return output.multimodal_outputs


def noise(draws: int = 0) -> dict[str, Any]:
    """`draws`: how often the process drew from the global generator before the model loaded."""
    torch.manual_seed(0)
    torch.rand(draws)
    first = stream("a", TOKENS, 7)
    before = torch.get_rng_state()
    begin("b", OTHERS, 9)
    again = stream("c", TOKENS, 7)
    return {
        "first": digest(first),
        "equal again": torch.equal(first, again),
        "other with another seed": not torch.equal(begin("d", TOKENS, 7), begin("e", TOKENS, 8)),
        "equal without a seed": torch.equal(begin("f", TOKENS, None), begin("g", TOKENS, None)),
        "other without a seed for other tokens": _seed_of(TOKENS) != _seed_of(OTHERS),
        "whole equal again": torch.equal(whole(TOKENS), whole(TOKENS)),
        "global generator untouched": torch.equal(torch.get_rng_state(), before),
    }


def begin(request: str, tokens: list[int], seed: int | None) -> torch.Tensor:
    """Return the audio of a stream's first chunk."""
    return step(request, *next(chunks(tokens)), seed)["model_outputs"][0]


def _seed_of(tokens: list[int]) -> int | None:
    make = getattr(stage(), "_noise_generator", None)
    return make(None, tokens).initial_seed() if make else None


def stream_against_whole() -> dict[str, Any]:
    both = stream("s", TOKENS, 7), whole(TOKENS, 7)
    return {
        "samples": [wave.numel() for wave in both],
        "level of each": [round(wave.square().mean().sqrt().item(), 4) for wave in both],
    }


def zeros() -> dict[str, Any]:
    """Audio made of the token 0 alone, whole and streamed, and what the runner's warm-up gives."""
    warm_up = stage().forward(torch.zeros(50, dtype=torch.int32), None, runtime_additional_information=[{}])
    parts = {"whole": whole([0] * 40), "streamed": stream("zeros", [0] * 40)}
    return {name: [part.numel(), bool(part.abs().max() > 0)] for name, part in parts.items()} | {
        "warm-up": warm_up.multimodal_outputs["model_outputs"][0].numel()
    }


def failures() -> dict[str, Any]:
    """Two failures of the stage before, one first and one amid a stream, and a chunk that the flow cannot take."""
    facts: dict[str, Any] = {}
    (first, _), *_ = chunks(TOKENS)
    for name, begun, meta in (
        ("first", False, {"error": "lost"}),
        ("amid a stream", True, {"error": "lost", "left_context_size": 0}),
        ("too short", True, {"left_context_size": 0}),
    ):
        if begun:
            step(name, first, last=False, seed=5)
        try:
            output = stage().forward(
                torch.zeros(1, dtype=torch.long),
                None,
                runtime_additional_information=[{"meta": meta}],
                request_ids=[name],
                request_seeds=[5],
                seq_token_counts=[1],
            )
            told = [text.partition(":")[0] for text in stage().request_errors.values()]
            facts[name] = [len(output.multimodal_outputs["model_outputs"][0]), *told]
        except Exception as error:
            facts[name] = f"raised {type(error).__name__}"
        finish(name)
    return facts | {"another is decoded": len(stream("another", TOKENS)) == 40 * 960}
