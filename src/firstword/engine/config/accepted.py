"""The keys that the installed vLLM-Omni reads from a deploy config.

vLLM-Omni drops unknown keys without a word: at the top level (``load_deploy_config``), in a stage
(``filter_dataclass_kwargs``) and in a connector's ``extra``. So a misspelt ``max_num_seq`` serves with
the default. The keys stand, recorded, in ``accepted.json`` beside this module, so that checking a
config imports neither torch nor vLLM; ``tests/unit/test_engine_config_accepted.py`` compares the record
with the installed package, and this module rewrites it::

    python -m firstword.engine.config.accepted
"""

import ast
import json
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

RECORD = Path(__file__).with_name("accepted.json")

# Modules that read a connector's ``extra`` for the two models served here.
_READERS = (
    "model_executor/stage_input_processors/qwen3_tts.py",
    "model_executor/stage_input_processors/step_audio2.py",
    "model_executor/stage_input_processors/chunk_size_utils.py",
    "model_executor/models/qwen3_tts/qwen3_tts_code2wav.py",
    "model_executor/models/qwen3_tts/qwen3_tts_talker.py",
    "model_executor/models/common/qwen3_code_predictor.py",
    "distributed/omni_connectors/connectors/shm_connector.py",
)
# Names under which those modules hold it, and the functions through which they read it.
_HOLDERS = frozenset({"cfg", "extra_cfg", "extra", "config", "prefix_graph_cfg"})
_GETTERS = frozenset({"_get_int_config", "_get_bool_config", "_get_int_list_config", "_get_int_pair_list_config"})


@cache
def recorded() -> dict[str, list[str]]:
    """Return the recorded keys: ``version``, and for each place in a config the names that are read there."""
    record: dict[str, list[str]] = json.loads(RECORD.read_text())
    return record


def installed() -> dict[str, list[str]]:
    """Return the same from the installed vLLM-Omni. Imports torch; takes seconds."""
    from dataclasses import fields

    from vllm import SamplingParams
    from vllm_omni.config import stage_config
    from vllm_omni.engine.arg_utils import OmniEngineArgs

    stage = {f.name for f in fields(stage_config.StageDeployConfig)} | {f.name for f in fields(OmniEngineArgs)}
    return {
        "version": [version("vllm-omni")],
        "top": sorted(f.name for f in fields(stage_config.DeployConfig)),
        # "engine_args" and "runtime" are read too (nested layout); firstword's configs are flat, so they stay out.
        "stage": sorted(stage),
        "sampling": sorted(name for name in SamplingParams.__struct_fields__ if not name.startswith("_")),
        "connector_extra": sorted(_connector_keys()),
    }


def _connector_keys() -> set[str]:
    """Return every constant with which one of `_READERS` looks into a connector's ``extra``."""
    spec = find_spec("vllm_omni")
    assert spec is not None
    assert spec.origin is not None
    keys: set[str] = set()
    for name in _READERS:
        tree = ast.parse((Path(spec.origin).parent / name).read_text())
        keys.update(key for node in ast.walk(tree) if isinstance(node, ast.Call) and (key := _key_read(node)))
    return keys - {"extra", "stage_id"}  # the holder itself, and what vLLM-Omni puts into it


def _key_read(call: ast.Call) -> str | None:
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=holder), attr="get"), args=[ast.Constant(value=str(key)), *_]
        ):
            return key if holder in _HOLDERS else None
        case ast.Call(func=ast.Name(id=getter), args=[ast.Constant(value=str(key)), *_]):
            return key if getter in _GETTERS else None
    return None


def write() -> None:
    """Rewrite the record from the installed package."""
    RECORD.write_text(json.dumps(installed(), indent=1) + "\n")


if __name__ == "__main__":
    write()
