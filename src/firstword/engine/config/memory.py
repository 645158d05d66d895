"""Does a config fit? Computed from the model's shape, before anything is loaded.

Computed, not run: no figure here was measured on a GPU. Each part says what it is computed from, and errs
upwards where it has to guess. The KV cache is exact, because the configs give it in bytes; so are the
weights. What vLLM itself cannot see beforehand is counted too: token2wav loads its models with the first request,
and keeps caches for each stream, after vLLM's memory profiling.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from firstword.engine.config import files
from firstword.engine.config.choice import choose_shape
from firstword.engine.config.devices import GIB, Device
from firstword.engine.config.files import EngineConfig, Stage
from firstword.engine.config.geometry import Geometry
from firstword.errors import Exit, FirstwordError

# One GPU process: CUDA context, cuBLAS and cuDNN workspaces, the allocator's slack. A guess, upwards.
GPU_PROCESS = 3 * GIB // 4
# One CPU stage process with vLLM, torch and transformers imported, and the server's with its front end. Measured
# (proportional set size) with a synthetic Step-Audio-2: 1.0 and 1.4 GB for the stages before the first request, 1.5 GB.
CPU_STAGE_PROCESS = 12 * GIB // 10
CPU_SERVER_PROCESS = 14 * GIB // 10
# CUDA graphs of the talker with its code predictor, and of the code2wav decoder. Guesses, upwards.
TALKER_GRAPHS = GIB
DECODER_GRAPHS = 3 * GIB // 2
# The audio encoder at work on several 30 s inputs: 1500 positions, attention scores included. A guess, upwards, for the
# published model; a smaller one takes less.
AUDIO_ENCODER = GIB
STEP_AUDIO_2_HIDDEN = 3584
# The code2wav decoder's last block: 96 channels of 4-byte numbers at 1920 samples a frame, four tensors alive.
DECODER_FRAME = 96 * 1920 * 4 * 4
# Frames of the longest ordinary window: 72 of reference, 72 of context, 25 new.
DECODER_WINDOW = 169
CODES_PER_FRAME = 16
# A mel frame in the flow's attention caches: 10 steps, 16 blocks, two halves of guidance, 8 heads, key and value of 64
# numbers of 4 bytes.
STREAM_FRAME = 10 * 16 * 2 * 8 * 128 * 4
# Frames that a stream keeps between chunks besides the prompt's, and those of a chunk.
STREAM_KEPT, CHUNK_FRAMES = 100, 50
# Caches besides those of the streams: the voice's own, and twice those of one stream while its chunk is decoded.
SPARE_CACHES = 3
# Flow and vocoder at work on one chunk. A guess, upwards; on a CPU no workspaces are kept for speed.
TOKEN2WAV_WORK = 2 * GIB
CPU_TOKEN2WAV_WORK = GIB // 2


@dataclass(frozen=True)
class Part:
    """One use of memory: what for, in which stage (None: the server), on which device index, and how many bytes."""

    stage: int | None
    device: int
    what: str
    size: int

    def __str__(self) -> str:
        where = "" if self.stage is None else f"stage {self.stage} "
        return f"{where}{self.what}: {gib(self.size)}"


@dataclass(frozen=True)
class Plan:
    """What a config will take.

    Attributes:
        config: The config.
        model: The checkpoint's sizes.
        parts: Every use of memory.
    """

    config: EngineConfig
    model: Geometry
    parts: tuple[Part, ...]

    def on(self, index: int) -> int:
        """Return the bytes taken on one device."""
        return sum(part.size for part in self.parts if part.device == index)

    @property
    def devices(self) -> list[int]:
        """The device indices that the config uses."""
        return sorted({part.device for part in self.parts})

    @property
    def kv_tokens(self) -> int:
        """Tokens that the talker's or thinker's KV cache holds, over all requests."""
        return self.config.stages[0].kv_cache_bytes // self.model.kv_bytes_per_token

    def lines(self) -> list[str]:
        """Return the plan as lines to print."""
        kind = "GPU" if self.config.device == "cuda" else "CPU"
        lines = []
        for index in self.devices:
            lines.append(f"{kind} {index}: {gib(self.on(index))} (computed, not run)")
            lines += [f"  {p}" for p in self.parts if p.device == index and p.size]
        return lines


def gib(size: int) -> str:
    """Return bytes as text, in GiB with one decimal."""
    return f"{size / GIB:.1f} GiB"


def memory_plan(config: EngineConfig, model: Geometry) -> Plan:
    """Return what ``config`` takes when it serves ``model``.

    Raises:
        FirstwordError: One request of the config's max_model_len does not fit into its KV cache.
    """
    parts: list[Part] = []
    for stage in config.stages:
        parts += _stage(config, stage, model)
    if config.device == "cpu":
        parts.append(Part(None, 0, "server process", CPU_SERVER_PROCESS))
    plan = Plan(config, model, tuple(parts))
    length = config.stages[0].settings.get("max_model_len")
    if length and plan.kv_tokens < length:
        raise FirstwordError(
            f"{config.family} {config.shape}: the KV cache of stage 0 holds {plan.kv_tokens} tokens of "
            f"{model.kv_bytes_per_token} bytes, one request may need {length}",
            mend=f"raise kv_cache_memory_bytes in {config.path} to {length * model.kv_bytes_per_token} or more",
            code=Exit.DOES_NOT_FIT,
        )
    return plan


def _stage(config: EngineConfig, stage: Stage, model: Geometry) -> Iterator[Part]:
    """Yield a stage's parts; with tensor parallelism, weights and KV cache are split over its devices."""
    cpu = config.device == "cpu"
    settings = stage.settings
    parallel = settings.get("tensor_parallel_size") or 1
    seen: dict[str, int] = {"process": CPU_STAGE_PROCESS if cpu else GPU_PROCESS}
    if stage.id == 0:
        seen["weights"] = model.language_model_bytes
        tokens = int(settings.get("max_num_batched_tokens") or 8192)
        # Gate, up and their product in the feed-forward network, four residual-sized tensors; 2 bytes a number.
        work = tokens * 2 * (3 * model.intermediate + 4 * model.hidden)
        # Logits, sorted logits and probabilities of every request, 4 bytes a number.
        work += int(settings["max_num_seqs"]) * model.vocabulary * 4 * 3
        if config.family == "qwen3-tts":
            # The speech tokenizer's encoder, for reference audio, in 2-byte numbers; at most the whole file.
            seen["weights"] += model.vocoder_bytes // 2
        else:
            work += AUDIO_ENCODER * model.hidden // STEP_AUDIO_2_HIDDEN
        seen["activations"] = work
        if not settings.get("enforce_eager") and not cpu:
            seen["CUDA graphs"] = TALKER_GRAPHS
    elif config.family == "qwen3-tts":
        seen["weights"] = model.vocoder_bytes
        seen["activations"] = _decoder_frames(config, stage) * DECODER_FRAME
        if not settings.get("enforce_eager") and not cpu:
            seen["CUDA graphs"] = DECODER_GRAPHS
    else:
        seen["weights, loaded at the first request"] = model.vocoder_bytes
        frames = model.prompt_frames + STREAM_KEPT + CHUNK_FRAMES
        seen["flow caches, of all streams"] = (int(settings["max_num_seqs"]) + SPARE_CACHES) * frames * STREAM_FRAME
        seen["activations"] = CPU_TOKEN2WAV_WORK if cpu else TOKEN2WAV_WORK
    for index in stage.devices:
        for what, size in seen.items():
            yield Part(stage.id, index, what, size // (parallel if what == "weights" else 1))
        yield Part(stage.id, index, "KV cache", stage.kv_cache_bytes if stage.id == 0 else 0)


def _decoder_frames(config: EngineConfig, stage: Stage) -> int:
    """Return how many codec frames the code2wav decoder works on at once."""
    settings = config.resolved()
    connectors: dict[str, dict[str, Any]] = settings.get("connectors") or {}
    extra = next((connector.get("extra") or {} for connector in connectors.values()), {})
    step = int(stage.settings["max_num_batched_tokens"]) // CODES_PER_FRAME
    together = int(extra.get("decode_batch_max_size") or stage.settings["max_num_seqs"])
    return min(step, together * DECODER_WINDOW)


def check_fits(plan: Plan, devices: Sequence[Device]) -> None:
    """Refuse a config that the machine cannot hold.

    Args:
        plan: What it takes.
        devices: The visible GPUs; for a CPU config the machine's memory as one device of kind ``cpu``, unchecked
            without it.

    Raises:
        FirstwordError: A GPU is missing or too small; the mend names a shape that fits.
    """
    reason = _misfit(plan, devices)
    if reason is None:
        return
    config = plan.config
    raise FirstwordError(
        f"{config.family} {config.shape} {reason}", mend=_alternative(plan, devices), code=Exit.DOES_NOT_FIT
    )


def _misfit(plan: Plan, devices: Sequence[Device]) -> str | None:
    present = {device.index: device for device in devices if device.kind == plan.config.device}
    for index in plan.devices:
        device = present.get(index)
        if device is None:
            if plan.config.device == "cpu":
                continue
            return f"needs {plan.config.gpus} GPU(s); {len(present)} visible"
        needed = plan.on(index)
        if needed > device.total:
            return f"needs {gib(needed)} (computed) on {device.name}, which has {gib(device.total)}"
        if needed > device.free:
            return (
                f"needs {gib(needed)} (computed) on {device.name}, of whose {gib(device.total)} "
                f"{gib(device.total - device.free)} are taken by something else"
            )
    return None


def _alternative(plan: Plan, devices: Sequence[Device]) -> str:
    """Return the mend: the shape to set: on a GPU, one that speaks if this one does, and best the usual choice."""
    config = plan.config
    usual = choose_shape(config.family, devices)
    fitting: dict[str, EngineConfig] = {}
    rank: dict[str, tuple[bool, bool, bool, int]] = {}
    for shape in files.shapes(config.family):
        other = files.load(config.family, shape)
        if other.device == "cpu" and not any(device.kind == "cpu" for device in devices):
            continue
        try:
            candidate = memory_plan(other, plan.model)
        except FirstwordError:  # not even one request of this model
            continue
        if _misfit(candidate, devices) is None:
            fitting[shape] = other
            rank[shape] = (
                other.device == "cuda",
                other.speaks or not config.speaks,
                shape == usual,
                candidate.kv_tokens,
            )
    if not fitting:
        most = gib(max(plan.on(index) for index in plan.devices))
        return f"free memory, or use a {'GPU' if config.device == 'cuda' else 'machine'} with {most} free"
    best = fitting[max(fitting, key=rank.__getitem__)]
    return f"pass --shape {best.shape}" + ("" if best.speaks or not config.speaks else " (recognition and text only)")
