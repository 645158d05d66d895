"""Load a Qwen3-TTS checkpoint into the engine's own two stage classes, by the engine's own loader.

A script, because it sets up vLLM's process-wide state. Prints, as JSON, the parameters that no tensor
of the checkpoint fills; vLLM raises on a tensor without a parameter and on a wrong shape.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
import vllm_omni  # noqa: F401 - registers its configuration classes
from vllm.config import set_current_vllm_config
from vllm.distributed.parallel_state import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.model_loader import DefaultModelLoader
from vllm_omni.engine.arg_utils import OmniEngineArgs
from vllm_omni.model_executor.models.qwen3_tts.qwen3_tts_code2wav import Qwen3TTSCode2Wav
from vllm_omni.model_executor.models.qwen3_tts.qwen3_tts_talker import Qwen3TTSTalkerForConditionalGeneration


def unfilled(folder: str) -> dict[str, list[str]]:
    config = OmniEngineArgs(
        model=folder,
        model_arch="Qwen3TTSTalkerForConditionalGeneration",
        enforce_eager=True,
        max_model_len=256,
        distributed_executor_backend="uni",
        worker_cls="auto",
    ).create_engine_config()
    with set_current_vllm_config(config), tempfile.TemporaryDirectory() as scratch:
        init_distributed_environment(1, 0, f"file://{scratch}/rendezvous", 0, "gloo")
        initialize_model_parallel(1, 1)
        torch.set_default_dtype(config.model_config.dtype)
        talker = Qwen3TTSTalkerForConditionalGeneration(vllm_config=config)
        torch.set_default_dtype(torch.float32)
        weights = DefaultModelLoader(config.load_config).get_all_weights(config.model_config, talker)
        filled = talker.load_weights(weights)
        vocoder = Qwen3TTSCode2Wav(vllm_config=config)
        filled_vocoder = vocoder.load_weights(iter(()))
        return {
            "talker": sorted({name for name, _ in talker.named_parameters()} - filled),
            "vocoder": sorted({name for name, _ in vocoder.named_parameters()} - filled_vocoder),
        }


if __name__ == "__main__":
    missing = unfilled(sys.argv[1])
    Path(sys.argv[2]).write_text(json.dumps(missing))
