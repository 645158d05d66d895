"""Checks on many requests in one step of the second stages: their bytes, their errors, their reads."""

from types import SimpleNamespace
from typing import Any

import torch
from token2wav_checks import OTHERS, TOKENS, chunks, digest, finish, stage, stream

from firstword import paths

UNKNOWN = 10**6  # no audio token


def _runner(requests: list[str]) -> Any:
    """A generation runner around nothing, for what becomes of a step's outputs."""
    from vllm_omni.worker.gpu_generation_model_runner import GPUGenerationModelRunner

    from firstword.bench.syncs import qwen3_tts

    config = SimpleNamespace(model_config=SimpleNamespace())
    made = qwen3_tts.runner(GPUGenerationModelRunner, SimpleNamespace(), config, torch.device("cpu"), requests)
    made.use_async_scheduling = False
    return made


def one_copy() -> dict[str, Any]:
    """What a step gives on a claimed device, through the runner's `sample_tokens`."""
    from vllm_omni.worker.gpu_generation_model_runner import ExecuteModelState

    from firstword.bench.syncs.claims import counting
    from firstword.bench.syncs.counting import READ, Counts
    from firstword.bench.syncs.held import CLAIMED

    host = [torch.arange(n * 3.0).reshape(n, 3) + n for n in (2, 0, 5, 1)]
    rates = [torch.tensor(24000, dtype=torch.int32)] * len(host)
    runner = _runner([f"r{n}" for n in range(len(host))])
    with torch.inference_mode(), counting(Counts()) as counts:
        given = {"model_outputs": [t.to(CLAIMED) for t in host], "sr": rates}
        fields = dict.fromkeys(ExecuteModelState._fields) | {"multimodal_outputs": given}
        runner.execute_model_state = ExecuteModelState(**fields)
        with counts.phase("step"):
            output = runner.sample_tokens(None)
    audio = [payload["model_outputs"] for payload in output.multimodal_outputs]
    return {
        "reads": counts.total("step", READ),
        "equal": all(torch.equal(a, b) for a, b in zip(audio, host, strict=True)),
        "own memory": len({t.untyped_storage().data_ptr() for t in audio if t.numel()}) == 3,
    }


def _together(*turns: tuple[str, list[int], bool | None]) -> tuple[list[torch.Tensor], dict[int, str]]:
    """One forward pass with (request, ids, last chunk or None for a whole sequence) for each of several requests."""
    infos = [{} if last is None else {"meta": {"left_context_size": int(last)}} for _, _, last in turns]
    output = stage().forward(
        torch.tensor([token for _, ids, _ in turns for token in ids] + [0] * 5),  # padded
        None,
        runtime_additional_information=infos,
        request_ids=[name for name, _, _ in turns],
        request_seeds=[5] * len(turns),
        seq_token_counts=[len(ids) for _, ids, _ in turns],
    )
    outputs = output.multimodal_outputs
    assert [int(rate) for rate in outputs["sr"]] == [24000] * len(turns)
    return outputs["model_outputs"], dict(getattr(stage(), "request_errors", {}))


def many() -> dict[str, Any]:
    """Two streams, one that fails in between, one that ends with its first chunk, and a whole sequence."""
    one, two = list(chunks(TOKENS)), list(chunks(OTHERS))
    first, errors = _together(("one", *one[0]), ("bad", [3, UNKNOWN, 4], False), ("short", TOKENS[:9], True))
    # "two" begins where "one" goes on; the place of each in the batch is another.
    second, none = _together(("two", *two[0]), ("one", *one[1]), ("whole", OTHERS[:9], None))
    third, _ = _together(("two", *two[1]))
    facts = {
        "one": torch.equal(torch.cat([first[0], second[1]]), stream("alone", TOKENS)),
        "two": torch.equal(torch.cat([second[0], third[0]]), stream("alone", OTHERS)),
        "short": torch.equal(first[2], _together(("alone", TOKENS[:9], True))[0][0]),
        "whole": torch.equal(second[2], _together(("alone", OTHERS[:9], None))[0][0]),
        "failed": {str(place): "could not be decoded" in why for place, why in errors.items()},
        "of the failed": first[1].numel(),
        "failed later": len(none),
    }
    _together(("leaves", *one[0]), ("stays", *two[0]))
    finish("leaves")
    return facts | {"states left": sorted(stage()._stream_states)}


def lost_device() -> dict[str, str]:
    """What fails for all still ends the stage: a lost device, a missing voice."""
    core, seen = stage().token2wav, {}

    def lost(*_: Any, **__: Any) -> Any:
        raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    voice = stage()._default_prompt_wav
    for name, place in (
        ("device", (core, "stream_chunk_for", lost)),
        ("voice", (stage(), "_default_prompt_wav", "/-")),
    ):
        owner, attribute, value = place
        before = getattr(owner, attribute)
        setattr(owner, attribute, value)
        try:
            _together(("r", TOKENS[:9], True))
            seen[name] = "went on"
        except Exception as error:
            seen[name] = type(error).__name__
        setattr(owner, attribute, before)
    assert stage()._default_prompt_wav == voice
    return seen


def bounded() -> dict[str, Any]:
    """What the second stage's scheduler is told, from the shipped config."""
    from vllm_omni.config.stage_config import load_deploy_config, merge_pipeline_deploy
    from vllm_omni.model_executor.models.step_audio2.pipeline import STEP_AUDIO2_PIPELINE

    deploy = load_deploy_config(paths.root() / "configs/engines/step-audio-2/speech-cpu.yaml")
    stages = merge_pipeline_deploy(STEP_AUDIO2_PIPELINE, deploy)
    return {"keeps state": [bool(s.yaml_engine_args.get("retains_state_across_chunks")) for s in stages]}


class _Read(list):
    """Token ids that count how many of them are read."""

    total = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        _Read.total += len(found) if isinstance(found, list) else 1
        return found

    def __iter__(self) -> Any:
        _Read.total += len(self)
        return super().__iter__()


def reading() -> dict[str, Any]:
    """A long answer through the chunk processor, text and padding among its audio tokens."""
    from vllm_omni.model_executor.models.step_audio2.step_audio2_constants import DEFAULT_TOKEN_CONFIG
    from vllm_omni.model_executor.stage_input_processors.step_audio2 import thinker2token2wav_async_chunk

    start, end = DEFAULT_TOKEN_CONFIG.audio_start, DEFAULT_TOKEN_CONFIG.audio_eos
    audio = [(37 * n) % 6000 for n in range(400)]
    answer = [
        t for n, token in enumerate(audio) for t in ([token + start] if n % 7 else [9, token + start, start + end])
    ]
    prompt = [start + 5] * 300  # an earlier turn's audio
    ids = _Read(prompt)
    request = SimpleNamespace(external_req_id="r", all_token_ids=ids, prompt_token_ids=_Read(prompt))
    manager = SimpleNamespace(code_prompt_token_ids={"r": []}, task_num_tokens=0)
    sent: list[list[int]] = []
    _Read.total = 0
    for n, token in enumerate(answer, 1):
        ids.append(token)
        manager.task_num_tokens = len(ids)
        payload = thinker2token2wav_async_chunk(manager, None, request, n == len(answer))
        if payload is not None:
            sent.append(payload.codes.audio.tolist())
    return {
        "all tokens, each chunk looking ahead": [chunk for chunk, _ in chunks(audio)] == sent,
        "reads for each token": round(_Read.total / (len(prompt) + len(answer))),
    }


def prepared() -> dict[str, Any]:
    """What two streams of one voice, and their chunks, compute again."""
    from torch.nn.utils import parametrize

    core = stage().token2wav
    core._ensure_models_loaded()
    setup_cache, chunk, heard = core.flow.setup_cache, core.flow.inference_chunk, []
    begun: list[bool] = []

    def setup(*args: Any, **kwargs: Any) -> Any:
        heard.append(True)
        return setup_cache(*args, **kwargs)

    def note(*args: Any, cache: dict[str, torch.Tensor], **kwargs: Any) -> Any:
        before = digest(*cache.values())
        result = chunk(*args, cache=cache, **kwargs)
        begun.append(digest(*cache.values()) == before)
        return result

    core.flow.setup_cache, core.flow.inference_chunk = setup, note
    first, second = stream("a", TOKENS[:40]), stream("b", TOKENS[:40])
    return {
        "prompt heard": len(heard),
        "equal again": torch.equal(first, second),
        "caches are only read": all(begun),
        "made in each chunk": sum(parametrize.is_parametrized(m) for m in core.hift.modules()),
        "audio": digest(first),
    }
