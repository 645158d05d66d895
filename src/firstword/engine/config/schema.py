"""Judge a deploy config: unknown keys, wrong types, and what breaks these two models.

Everything here would otherwise show late or never: vLLM-Omni drops an unknown key without a word, and a
Step-Audio-2 token2wav stage that batches ends the engine with the second request.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from firstword.engine.config.accepted import recorded

FAMILIES = ("qwen3-tts", "step-audio-2")

_NUMBER = {"type": "number", "minimum": 0}
_COUNT = {"type": "integer", "minimum": 1}
_FLAG = {"type": "boolean"}
_TEXT = {"type": "string"}
_TABLE = {"type": "object"}
_NAMES = {"type": "object", "additionalProperties": _TEXT}


def _closed(names: list[str], typed: Mapping[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of an object that holds only ``names``, of which ``typed`` have a type here."""
    properties: dict[str, Any] = dict.fromkeys(names, True)
    return {
        "type": "object",
        "properties": properties | dict(typed),
        "additionalProperties": False,
        "required": list(required),
    }


def schema() -> dict[str, Any]:
    """Return the JSON schema (2020-12) of a deploy config for the recorded vLLM-Omni."""
    keys = recorded()
    sampling = _closed(
        keys["sampling"],
        {
            "temperature": _NUMBER,
            "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            "top_k": {"type": "integer", "minimum": -1},
            "max_tokens": _COUNT,
            "min_tokens": {"type": "integer", "minimum": 0},
            "repetition_penalty": {"type": "number", "exclusiveMinimum": 0},
            "seed": {"type": "integer"},
            "detokenize": _FLAG,
        },
    )
    # The keys that gpu_model_runner and the talker read; vLLM-Omni has no class for them.
    subtalker = _closed([], {"do_sample": _FLAG, "temperature": _NUMBER, "top_k": _COUNT, "top_p": _NUMBER})
    stage = _closed(
        keys["stage"],
        {
            "stage_id": {"type": "integer", "minimum": 0},
            "devices": {"type": "string", "pattern": r"^[0-9]{1,4}(,[0-9]{1,4})*\Z"},
            "tensor_parallel_size": _COUNT,
            "max_num_seqs": _COUNT,
            "max_num_batched_tokens": _COUNT,
            "max_model_len": _COUNT,
            "gpu_memory_utilization": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            "kv_cache_memory_bytes": _COUNT,
            "enforce_eager": _FLAG,
            "async_scheduling": _FLAG,
            "trust_remote_code": _FLAG,
            "enable_prefix_caching": _FLAG,
            "skip_mm_profiling": _FLAG,
            "dtype": _TEXT,
            "compilation_config": _TABLE,
            "hf_overrides": _TABLE,
            "input_connectors": _NAMES,
            "output_connectors": _NAMES,
            "default_sampling_params": sampling,
            "subtalker_sampling_params": subtalker,
        },
        # The last because a share of the device (gpu_memory_utilization) depends on what else is allocating there.
        required=("stage_id", "devices", "max_num_seqs", "max_num_batched_tokens", "kv_cache_memory_bytes"),
    )
    extra = _closed(
        keys["connector_extra"],
        {
            "codec_chunk_frames": _COUNT,
            "codec_left_context_frames": {"type": "integer", "minimum": 0},
            "initial_codec_chunk_frames": {"type": "integer", "minimum": 0},
            "decode_batch_max_size": {"type": "integer", "minimum": 0},
            "decode_cudagraph_capture_sizes": {"type": "array", "items": _COUNT},
        },
    )
    connector = _closed([], {"name": _TEXT, "extra": extra}, required=("name",))
    return _closed(
        keys["top"],
        {
            "async_chunk": _FLAG,
            "trust_remote_code": _FLAG,
            "enable_prefix_caching": _FLAG,
            "distributed_executor_backend": {"enum": ["uni", "mp", "ray", "external_launcher"]},
            "dtype": _TEXT,
            "pipeline": _TEXT,
            "connectors": {"type": "object", "additionalProperties": connector},
            "stages": {"type": "array", "minItems": 1, "items": stage},
        },
        required=("stages", "async_chunk"),
    ) | {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def problems(config: Any, family: str) -> list[str]:
    """Return everything that is wrong with a deploy config, one line each; empty when it is good.

    Args:
        config: The parsed YAML.
        family: A name of `FAMILIES`.
    """
    from jsonschema import Draft202012Validator

    errors = sorted(Draft202012Validator(schema()).iter_errors(config), key=lambda e: [str(p) for p in e.absolute_path])
    found = [line for error in errors for line in _lines(error)]
    # The rules below read what the schema has promised.
    return found or [*_structure(config), *(_qwen3_tts if family == "qwen3-tts" else _step_audio_2)(config)]


def _lines(error: Any) -> Iterator[str]:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).lstrip(".")
    where = f" in {place}" if place else ""
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = list(error.schema.get("properties", {}))
        for key in error.instance.keys() - set(known):
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            yield f"unknown key {key!r}{where}" + (f"; the nearest that is read is {near[0]!r}" if near else "")
    elif error.validator == "required":
        yield f"{error.message}{where}"
    else:
        message = " ".join(error.message.split())
        yield f"{place or 'the file'}: {message if len(message) <= 300 else f'{message[:300]}...'}"


def _structure(config: Mapping[str, Any]) -> Iterator[str]:
    ids = [stage["stage_id"] for stage in config["stages"]]
    if ids != list(range(len(ids))):
        yield f"stage ids are {ids}; they count up from 0"
    connectors = config.get("connectors") or {}
    for stage in config["stages"]:
        for side in ("input_connectors", "output_connectors"):
            for name in (stage.get(side) or {}).values():
                if name not in connectors:
                    yield f"stage {stage['stage_id']} names the connector {name!r}, which connectors: does not define"
        count = stage["devices"].count(",") + 1
        parallel = stage.get("tensor_parallel_size") or 1
        if count < parallel:
            yield f"stage {stage['stage_id']} has {count} device(s) for tensor_parallel_size {parallel}"


def _qwen3_tts(config: Mapping[str, Any]) -> Iterator[str]:
    stages = config["stages"]
    if len(stages) != 2:
        yield f"Qwen3-TTS has two stages, talker and code2wav; this file has {len(stages)}"
        return
    sampling = stages[0].get("default_sampling_params") or {}
    if sampling.get("min_tokens", 0) < 2:
        yield (
            "stage 0 has no min_tokens: 2 in default_sampling_params; a checkpoint that samples the end of speech "
            "on the first frame would answer 400 (vllm-omni #4962)"
        )
    length = stages[0].get("max_model_len")
    if length and sampling.get("max_tokens", length) > length:
        yield f"stage 0 allows {sampling['max_tokens']} frames in a max_model_len of {length}"


def _step_audio_2(config: Mapping[str, Any]) -> Iterator[str]:
    stages = config["stages"]
    asr = config.get("pipeline") == "step_audio_2_asr"
    if len(stages) != (1 if asr else 2):
        yield (
            f"Step-Audio-2 has two stages, thinker and token2wav, or one with pipeline: step_audio_2_asr; "
            f"this file has {len(stages)}" + (" and names that pipeline" if asr else "")
        )
        return
    if not asr and not config["async_chunk"]:
        yield (
            "Step-Audio-2 with async_chunk: false is upstream's sequential form: it streams no audio and can deadlock; "
            "firstword serves async chunks only"
        )
    if stages[0].get("enforce_eager") is not True:
        yield (
            "stage 0 has no enforce_eager: true; _process_audio_input reads lengths on the host, "
            "which no CUDA graph can capture"
        )
    chunk = 28  # audio tokens, those looked ahead at included
    if not asr and stages[1]["max_num_batched_tokens"] < chunk * stages[1]["max_num_seqs"]:
        yield (
            f"stage 1 has max_num_batched_tokens {stages[1]['max_num_batched_tokens']}, less than a chunk of {chunk} "
            f"for each of max_num_seqs {stages[1]['max_num_seqs']} streams; a chunk in two halves is other speech"
        )
