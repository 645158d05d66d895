"""vLLM-Omni's own command line, with all processes of an engine forked from one that has already imported.

Every stage of an engine is a new process that imports vLLM, torch and transformers for 10 s, one
stage after the other (``vllm_omni/engine/stage_runtime.py:576`` holds a lock). There is no setting:
``VLLM_WORKER_MULTIPROC_METHOD`` takes spawn or fork, and vLLM's CPU platform overwrites it with spawn.
Here this process imports once what a stage and the API both need, then forks Python's fork server, from which each
stage is forked in milliseconds. Only here is there but one thread, so that a fork is safe; the API, which starts
many, comes after. On a GPU the stock way is kept: nothing was measured there.
"""

import contextlib
import gc
import importlib
import itertools
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import forkserver, resource_tracker, util
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


def start_fork_server(preload: str = PRELOAD) -> None:
    """Import a module and fork the server, which every stage is then forked from.

    Args:
        preload: What to import; no thread may run once it is.
    """
    importlib.import_module(preload)
    # Else the first collection in each process would touch, and so copy, every page that they share.
    gc.collect()
    gc.freeze()
    # A small process of its own, which the server would start too: not a fork that keeps all that was imported.
    resource_tracker.ensure_running()
    with _forked_instead_of_spawned():
        forkserver.ensure_running()


def fork_stages() -> None:
    """Let vLLM-Omni start its stages from the server."""
    from vllm_omni.engine import stage_engine_core_proc_manager

    context = StageContext()
    stage_engine_core_proc_manager.get_mp_context = lambda: context


@contextlib.contextmanager
def _forked_instead_of_spawned() -> Iterator[None]:
    # The library starts its server as a new interpreter that imports everything again; there is no other way in.
    library: Any = util
    spawn, library.spawnv_passfds = library.spawnv_passfds, _fork
    try:
        yield
    finally:
        library.spawnv_passfds = spawn


def _fork(_program: object, arguments: Sequence[str], kept: Sequence[int]) -> int:
    """Run the code that stands last in ``arguments`` in a fork, which ends with it; return its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        # As in a new interpreter: a pipe's other end that stays open here would hide its end.
        os.closerange(3, min(kept))
        for low, high in itertools.pairwise([*sorted(kept), os.sysconf("SC_OPEN_MAX")]):
            os.closerange(low + 1, high)
        exec(arguments[-1], {})  # noqa: S102  # the library's own line
    except SystemExit:
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def main() -> None:
    """Run ``vllm`` with the arguments given."""
    if os.environ.get(FLAG) == "1":
        start_fork_server()
        fork_stages()
    from vllm_omni.entrypoints.cli.main import main as vllm_omni_main

    sys.argv[0] = "vllm"
    vllm_omni_main()


if __name__ == "__main__":
    main()
