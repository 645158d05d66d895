"""The environment variables an engine starts with, each with its reason.

A variable that the user has already set is kept: these are defaults, not orders.
"""

import os
from collections.abc import Mapping
from pathlib import Path

ALWAYS: dict[str, str] = {
    # No usage report leaves the machine.
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # The checkpoint is a verified local folder; nothing may be fetched behind its back.
    "HF_HUB_OFFLINE": "1",
    # A reference audio given by URL must not be redirected to an address inside the network.
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
    # joblib, which librosa imports, would leave named semaphores in /dev/shm behind when an engine is killed.
    "JOBLIB_MULTIPROCESSING": "0",
    # Plain lines: they are read by machines and by the supervisor.
    "VLLM_LOGGING_COLOR": "0",
}

CPU: dict[str, str] = {
    # `enforce_eager` does not reach the sampler and the code predictor: both still compile, 67 s of a start.
    "TORCHDYNAMO_DISABLE": "1",
    # `auto` pins the worker of every stage to the same first core.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # Two stages and the API process share the cores; more threads each only wait for one another.
    "OMP_NUM_THREADS": "1",
    # A stage's engine core runs its worker in its own process: three processes instead of five, the same bytes.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # Stages are forked from one process that has imported already (firstword.engine.launch).
    "FIRSTWORD_FORK_SERVER": "1",
}


def engine_environment(
    device: str, cache: Path, base: Mapping[str, str] | None = None, *, scratch: Path | None = None
) -> dict[str, str]:
    """Return the environment of an engine process.

    Args:
        device: ``cpu`` or ``cuda``.
        cache: Folder kept between starts: vLLM's model inspection results, which take 36 s when cold, and voices.
        base: The environment to start from, ``os.environ`` by default.
        scratch: Folder for what lives no longer than the engine: the sockets between its processes, which vLLM
            never removes, and temporary files.
    """
    environment = dict(os.environ if base is None else base)
    defaults = ALWAYS | (CPU if device == "cpu" else {})
    # Uploaded voices survive a restart with the caches' folder, not in the user's own one.
    defaults |= {"VLLM_CACHE_ROOT": str(cache / "vllm"), "SPEAKER_SAMPLES_DIR": str(cache / "speakers")}
    for name, value in defaults.items():
        environment.setdefault(name, value)
    if scratch is not None:
        environment["TMPDIR"] = str(scratch)
        environment.setdefault("VLLM_OMNI_SERVER_STORAGE__PATH", str(scratch / "storage"))
        # Compiled kernels are worth more than one start.
        environment.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache / "inductor"))
    # Without bytecode each process compiles vLLM, torch and transformers again: 22-30 s instead of 10.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment
