"""The two engines compared: vLLM-Omni as released on upstream's own config, and firstword's, both on the CPU."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import firstword
from firstword import paths
from firstword.acceptance.client import Client
from firstword.acceptance.errors import ApiError, UnreachableError
from firstword.engine import config as configs
from firstword.engine import serve
from firstword.engine.environment import engine_environment
from firstword.engine.process import end_group
from firstword.errors import Exit, FirstwordError

STARTS_WITHIN = 900.0  # seconds
# Upstream's deploy files of the shapes measured.
UPSTREAM = {"qwen3-tts": "qwen3_tts.yaml", "step-audio-2": "step_audio_2_async_chunk.yaml"}
# What of a stage says what the machine has, not how requests are served: ours, in upstream's config.
_OF_THE_DEVICE = (
    "devices",
    "tensor_parallel_size",
    "kv_cache_memory_bytes",
    "enforce_eager",
    "async_scheduling",
    "max_model_len",
    "max_num_batched_tokens",
    "skip_mm_profiling",
)


@dataclass(frozen=True)
class Side:
    """An engine that answers."""

    name: str
    model: str
    url: str
    process: "subprocess.Popen[bytes]"
    config: str  # its deploy config, as text

    def client(self) -> Client:
        """Return a client whose requests may wait for others."""
        return Client(self.url, timeout=600.0, model=self.model)


def fitted(family: str, shape: str) -> dict[str, Any]:
    """Return upstream's deploy config with the device's own settings from firstword's."""
    import yaml

    ours = configs.load(family, shape).resolved()
    deploy: dict[str, Any] = yaml.safe_load((files("vllm_omni") / "deploy" / UPSTREAM[family]).read_text())
    deploy.pop("platforms", None)
    deploy["distributed_executor_backend"] = ours["distributed_executor_backend"]
    for stage, mine in zip(deploy["stages"], ours["stages"], strict=True):
        stage.pop("gpu_memory_utilization", None)
        stage.update({key: mine[key] for key in _OF_THE_DEVICE if key in mine})
        sampling = stage["default_sampling_params"]
        sampling["max_tokens"] = min(sampling["max_tokens"], stage["max_model_len"])
    return deploy


@contextlib.contextmanager
def started(
    name: str, checkpoint: Path, *, config: Path, port: int, tree: Path | None, scratch: Path
) -> Iterator[Side]:
    """Run an engine until the block ends.

    Args:
        name: Of the side.
        checkpoint: Its model.
        config: Its deploy config.
        port: Where it listens.
        tree: Packages that stand before the environment's; with them, vLLM's own entry point is started.
        scratch: For its log and sockets.

    Raises:
        FirstwordError: It ended, or did not answer in time.
    """
    environment = engine_environment("cpu", paths.home() / "cache", scratch=scratch)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = serve.command(checkpoint, config, checkpoint.name, "127.0.0.1", port)
    if tree is not None:
        # As released: no fork server, and nothing of firstword's but the platform that a CPU needs.
        environment |= {"FIRSTWORD_FORK_SERVER": "0", "VLLM_CACHE_ROOT": str(paths.home() / "cache/vllm-stock")}
        environment["PYTHONPATH"] = os.pathsep.join([str(tree), str(Path(firstword.__file__).parents[1])])
        command = [part for part in command if part not in ("--middleware", "firstword.engine.error_shape.ErrorShape")]
        command[1:3] = ["-m", "vllm.entrypoints.cli.main"]
    log = scratch / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=scratch, start_new_session=True
        )
    side = Side(name, checkpoint.name, f"http://127.0.0.1:{port}", process, config.read_text(encoding="utf-8"))
    try:
        _wait(side, log)
        yield side
    finally:
        end_group(process)


def _wait(side: Side, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline:
        if side.process.poll() is not None:
            break
        with contextlib.suppress(ApiError, UnreachableError), side.client() as client:
            client.health()
            return
        time.sleep(1)
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:] or ["no output"]
    raise FirstwordError(f"{side.name} did not start: {last[0]}", mend=f"read {log}", code=Exit.NOT_READY)
