"""The checks of the machine: interpreter, devices, memory, /dev/shm, disk, port, compiler."""

import os
from collections.abc import Iterator
from pathlib import Path

from firstword import paths
from firstword.engine.preflight.context import Context
from firstword.engine.preflight.finding import Finding
from firstword.errors import Exit, FirstwordError

PYTHON = (3, 12)
# The oldest driver that CUDA 13 runs on, which PyPI's vLLM and torch are built for.
DRIVER = (580,)
MIB = 1024**2
SHM_FOLDER = Path("/dev/shm")  # noqa: S108  # this very folder
# Waveform and token chunks of requests under way; a stage of worker processes keeps 160 MiB of messages on top.
SHM = 128 * MIB
SHM_WITH_WORKERS = 1024 * MIB
# vLLM's caches, logs, and what clients upload.
DISK = 1024 * MIB


def checks(context: Context) -> Iterator[Finding]:
    """Yield what the machine lacks; without a model only what belongs to the environment itself."""
    yield from interpreter(context)
    yield from compiler(context)
    yield from library(context)
    yield from port(context)
    if context.model_dir is not None:
        yield from deploy(context)
        yield from shared_memory(context)
        yield from disk(context)
        yield from writable(context)


def other_build(context: Context) -> Iterator[Finding]:
    """Yield the one finding that there is when the environment holds vLLM's other build; nothing else is worth saying.

    The other checks compare with the lock of the device to serve on: each would have the environment turned into the
    other one.
    """
    installed = context.installed
    if installed.build is None or installed.build == context.device:
        return
    names = {"cpu": "the CPU", "cuda": "GPUs"}
    asked = f"the shape {context.deploy_config.stem}" if context.deploy_config else f"--device {context.device}"
    cause = f"{asked} is for {names[context.device]}, and this environment is for {names[installed.build]}"
    instead = f"pass --device {installed.build}"
    if context.family is not None:
        from firstword.engine.config.files import device_by_name, shapes

        suit = (shape for shape in shapes(context.family) if device_by_name(Path(shape)) == installed.build)
        instead = f"pass --shape {' or '.join(suit)}"
    how = "README.md, Real models" if installed.build == "cpu" else "scripts/up"
    other = f"make an environment for {names[context.device]} ({how})"
    mend = f"{instead}; or {other}"
    later = "RuntimeError: Device string must not be empty, or Failed to infer device type"
    yield Finding("devices", context.device, cause, later, mend, Exit.CONFIG)


def interpreter(context: Context) -> Iterator[Finding]:
    """Yield a finding when this is not the Python that the lock is for."""
    found = context.probes.python()
    if found != PYTHON:
        cause = f"Python {found[0]}.{found[1]} runs this; the lock is for 3.12"
        later = "wheels that do not install, or a SyntaxError far into the start"
        mend = "make the environment with Python 3.12 (scripts/up does)"
        yield Finding("python", "python", cause, later, mend, Exit.WRONG_PYTHON)


def deploy(context: Context) -> Iterator[Finding]:
    """Yield findings for a deploy config that is not good, and for devices that don't suit it."""
    config = context.config
    if isinstance(config, FirstwordError):
        later = "unknown keys are dropped without a word; wrong values end a stage at start"
        yield Finding("config", str(context.deploy_config), config.cause, later, config.mend, config.code)
        return
    if context.device == "cuda":
        yield from _driver(context)
        if context.probes.drivers() is None:
            return
    if config is None or context.model_dir is None or context.family is None:
        return
    if config.device != context.device:
        cause = f"{config.path.name} is for {config.device}, the environment is for {context.device}"
        mend = f"pass a --shape for {context.device}"
        yield Finding(
            "devices", config.path.name, cause, "RuntimeError: Device string must not be empty", mend, Exit.CONFIG
        )
        return
    from firstword.engine.config import check_fits, memory_plan, of_checkpoint

    later = (
        "an out-of-memory error of one stage after a minute or more, or at the first long request; "
        "vllm serve ends with 'Engine core initialization failed'"
    )
    try:
        geometry = of_checkpoint(context.model_dir, context.family)
    except FirstwordError:  # the model check says what is missing
        return
    try:
        check_fits(memory_plan(config, geometry), context.probes.devices(context.device))
    except FirstwordError as error:
        yield Finding("devices", config.shape, error.cause, later, error.mend, error.code)


def no_driver() -> FirstwordError:
    """Return the error of an environment for GPUs on a machine that shows none."""
    return FirstwordError(
        "no NVIDIA driver answers (nvidia-smi is missing or fails), and this environment is built for GPUs",
        mend="install the driver, or give the container its GPUs (--gpus all); without a GPU use scripts/up",
        code=Exit.DOES_NOT_FIT,
    )


def _driver(context: Context) -> Iterator[Finding]:
    drivers = context.probes.drivers()
    if drivers is None:
        error = no_driver()
        later = "RuntimeError: Failed to infer device type"
        yield Finding("devices", "driver", error.cause, later, error.mend, error.code)
        return
    for version in sorted(set(drivers)):
        if version < DRIVER:
            cause = f"NVIDIA driver {'.'.join(map(str, version))} is older than 580, which CUDA 13 needs"
            later = "RuntimeError: The NVIDIA driver on your system is too old"
            yield Finding("devices", "driver", cause, later, "install driver 580 or newer", Exit.DOES_NOT_FIT)


def shared_memory(context: Context) -> Iterator[Finding]:
    """Yield a finding when /dev/shm can't hold what stages pass to one another."""
    workers = context.settings.get("distributed_executor_backend") != "uni"
    wanted = SHM_WITH_WORKERS if workers and context.device == "cuda" else SHM
    free = context.probes.free_space(SHM_FOLDER)
    if free is not None and free >= wanted:
        return
    cause = f"{SHM_FOLDER} does not exist"
    if free is not None:
        cause = f"{SHM_FOLDER} has {_mib(free)} free, {_mib(wanted)} are needed"
    later = "/health answers 200; a request hangs or a stage dies with 'Bus error' or 'No space left on device'"
    mend = "start the container with --shm-size 2g (compose: shm_size), or remove what old engines left in /dev/shm"
    yield Finding("machine", str(SHM_FOLDER), cause, later, mend, Exit.DISK_FULL)


def disk(context: Context) -> Iterator[Finding]:
    """Yield a finding when caches and logs have no room."""
    folder = paths.home()
    free = context.probes.free_space(folder)
    if free is not None and free < DISK:
        cause = f"{folder} is on a file system with {_mib(free)} free, {_mib(DISK)} are needed"
        later = "OSError: [Errno 28] No space left on device, from whatever writes first"
        mend = "free space there, or set FIRSTWORD_HOME to a folder elsewhere"
        yield Finding("machine", str(folder), cause, later, mend, Exit.DISK_FULL)


def writable(context: Context) -> Iterator[Finding]:
    """Yield a finding for each folder that a served engine writes to and that cannot be written."""
    from firstword.acceptance.state import run_dir
    from firstword.engine.environment import engine_environment

    given = engine_environment(context.device, paths.home() / "cache")
    wanted = {
        run_dir(): ("what the supervisor tells of its engine", "FIRSTWORD_RUN_DIR"),
        Path(given["VLLM_CACHE_ROOT"]): ("vLLM's caches", "VLLM_CACHE_ROOT"),
    }
    speakers = Path(given["SPEAKER_SAMPLES_DIR"])
    if not os.path.isdir(speakers):  # noqa: PTH112  # never raises. One that is there may be read-only: voices are fixed
        wanted[speakers] = ("uploaded voices", "SPEAKER_SAMPLES_DIR")
    refused: dict[str, list[tuple[Path, tuple[str, str]]]] = {}
    for folder, about in wanted.items():
        if error := context.probes.write_error(folder):
            refused.setdefault(error, []).append((folder, about))
    for error, folders in refused.items():  # a home that is read-only is one cause
        uses = ", ".join(f"{folder} ({what})" for folder, (what, _) in folders)
        names = " and ".join(name for _, (_, name) in folders)
        yield Finding(
            "machine",
            str(folders[0][0]),
            f"cannot write in {error}, where there must be {uses}",
            "PermissionError or OSError: Read-only file system, from the supervisor or from a stage at its start",
            f"let the user with id {os.geteuid()} write there, or name another folder: FIRSTWORD_HOME, or {names}",
            Exit.NO_ACCESS,
        )


def port(context: Context) -> Iterator[Finding]:
    """Yield a finding when the server could not listen."""
    if context.port is None:
        return
    error = context.probes.bind_error(context.host, context.port)
    if error:
        where = f"{context.host}:{context.port}"
        cause = f"cannot listen on {where}: {error}"
        later = f"OSError: {error}, before or after the models are loaded"
        mend = "stop what listens there, or choose another --port"
        if "in use" not in error:
            mend = "give --host an address of this machine (127.0.0.1, or 0.0.0.0 for all), and --port 1 to 65535"
        yield Finding("machine", where, cause, later, mend, Exit.PORT_IN_USE)


def compiler(context: Context) -> Iterator[Finding]:
    """Yield a finding when something will be compiled and no compiler is there: Triton in C, torch.compile in C++."""
    compiles = context.device == "cuda" or os.environ.get("TORCHDYNAMO_DISABLE", "1") != "1"
    if not compiles:
        return
    for language, names in {"C": ("cc", "gcc", "clang"), "C++": ("c++", "g++", "clang++")}.items():
        if context.probes.command(*names) is None:
            cause = f"no {language} compiler is on PATH ({', '.join(names)})"
            later = "InvalidCxxCompiler or 'Failed to find C compiler', at start or at the first request"
            yield Finding("machine", f"{language} compiler", cause, later, "install gcc and g++", Exit.NO_COMPILER)


def library(context: Context) -> Iterator[Finding]:
    """Yield a finding when vLLM's operators for CPUs could not be loaded: no wheel brings libnuma."""
    if context.device == "cpu" and not context.probes.library("libnuma.so.1"):
        cause = "libnuma.so.1 is not on this machine; vllm/_C.abi3.so is linked with it"
        later = (
            "a warning (Failed to import from vllm._C), then a stage that ends with "
            "RuntimeError: Engine core initialization failed"
        )
        yield Finding("machine", "libnuma.so.1", cause, later, "apt-get install libnuma1", Exit.ENVIRONMENT)


def _mib(size: int) -> str:
    return f"{size // MIB} MiB"
