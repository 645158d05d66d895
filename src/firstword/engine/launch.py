"""vLLM-Omni's own command line, with stages that start from one process that has already imported.

Every stage of an engine is a new process that imports vLLM, torch and transformers for 10 s, one
stage after the other (``vllm_omni/engine/stage_runtime.py:576`` holds a lock). There is no setting:
``VLLM_WORKER_MULTIPROC_METHOD`` takes spawn or fork, and vLLM's CPU platform overwrites it with spawn.
Here Python's fork server imports once, on another core while this process imports too, and each
stage is forked from it in milliseconds. On a GPU the stock way is kept: nothing was measured there.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

FLAG = "FIRSTWORD_FORK_SERVER"
PRELOAD = "firstword.engine.preload"


class StageContext(ForkServerContext):
    """A fork-server context whose children see this process's environment, as spawned ones do."""

    def Process(  # type: ignore[override]  # noqa: N802, D102  # the name multiprocessing gives it
        self, *, target: Callable[..., object], name: str, kwargs: dict[str, Any]
    ) -> BaseProcess:
        return super().Process(target=run_stage, name=name, args=(dict(os.environ), target, kwargs))


def run_stage(environment: dict[str, str], target: Callable[..., object], kwargs: dict[str, Any]) -> None:
    """Run a stage in a forked process: first give it the environment its parent has now."""
    os.environ.clear()
    os.environ.update(environment)
    target(**kwargs)


def start_fork_server() -> None:
    """Start the server, which begins to import at once, and let stages be forked from it."""
    multiprocessing.set_forkserver_preload([PRELOAD])
    forkserver.ensure_running()
    from vllm_omni.engine import stage_engine_core_proc_manager

    context = StageContext()
    stage_engine_core_proc_manager.get_mp_context = lambda: context


def main() -> None:
    """Run ``vllm`` with the arguments given."""
    if os.environ.get(FLAG) == "1":
        start_fork_server()
    from vllm_omni.entrypoints.cli.main import main as vllm_omni_main

    sys.argv[0] = "vllm"
    vllm_omni_main()


if __name__ == "__main__":
    main()
