"""Make the Python environments from their hash locks. Standard library only.

``engine`` holds exactly its lock, firstword and the patch series; ``gateway`` its lock and firstword;
``dev`` holds the test tools and sees everything in ``engine``; ``javascript`` the SDK that the gateway's tests use.
An environment is made again only when something that it was made from has changed: its lock, the interpreter, the
installer or the series.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.native.console import say, step

# Bytes an engine's environment takes, with room for the wheels while they are unpacked.
ENGINE_BYTES = 9_000_000_000
LEAST_NODE = 20
_STAMP = "firstword-environment.json"
_PATCHED = ("vllm-omni", "step-audio2")


def require_python() -> None:
    """Raise unless this interpreter is the one the locks were made for.

    Raises:
        FirstwordError: It is not Python 3.12.
    """
    if sys.version_info[:2] != (3, 12):
        raise FirstwordError(
            f"Python 3.12 is needed, this is {sys.version.split()[0]} ({sys.executable})",
            mend="set FIRSTWORD_PYTHON to a Python 3.12",
            code=Exit.WRONG_PYTHON,
        )


def engine() -> Path:
    """Return the engine's environment, made and patched if need be."""
    return _ensure("engine", "engine-cpu", _finish_engine, extra=_series_digest(), room=ENGINE_BYTES)


def dev() -> Path:
    """Return the environment of the test tools, which also sees the engine's packages."""
    engine()
    return _ensure("dev", "dev", _finish_dev, extra="", room=500_000_000)


def gateway() -> Path:
    """Return the gateway's environment, which has neither torch nor vLLM."""
    return _ensure("gateway", "gateway", _finish_gateway, extra="", room=500_000_000)


def javascript() -> Path:
    """Return the folder whose ``node_modules`` holds the SDK that the gateway's tests use.

    Raises:
        FirstwordError: Node.js or npm is missing or too old, or npm failed.
    """
    source, folder = paths.root() / "tests/gateway/clients/javascript", paths.home() / "javascript"
    node = _require_node()
    files = [source / name for name in ("package.json", "package-lock.json", ".npmrc")]
    wanted = f"{_digest(*files)}-{node}"
    with locked("javascript"):
        if _stamp(folder) != wanted:
            folder.mkdir(exist_ok=True)
            (folder / _STAMP).unlink(missing_ok=True)
            with step(f"making the JavaScript environment in {folder} (package-lock.json)"):
                for file in files:
                    shutil.copy(file, folder)
                run(["npm", "ci", "--prefer-offline", "--prefix", str(folder)])
            _write_stamp(folder, wanted)
    return folder


def uv() -> Path:
    """Return the pinned installer, in an environment of its own."""
    folder = paths.home() / "uv"
    lock = requirements("uv")
    with locked("uv"):
        if _stamp(folder) != (wanted := _digest(lock)):
            shutil.rmtree(folder, ignore_errors=True)
            with step("installing uv"):
                run([sys.executable, "-m", "venv", str(folder)])
                run(
                    [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(lock)]
                )
            _write_stamp(folder, wanted)
    return folder / "bin/uv"


def requirements(name: str) -> Path:
    """Return a hash-locked requirement file by its name, such as ``engine-cpu``."""
    return paths.root() / "docker/requirements" / f"{name}.txt"


def run(command: Sequence[str], **environment: str) -> None:
    """Run a command whose output the user sees, on stderr: stdout is for results.

    Raises:
        FirstwordError: It failed.
    """
    full = {key: value for key, value in os.environ.items() if key not in _KEPT_OUT} | environment
    with subprocess.Popen(command, env=full, stdout=2) as child:
        try:
            code = child.wait()
        except BaseException:
            # `subprocess.run` would kill it, and it could not clean up after itself.
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(10)
            child.kill()
            raise
    if code != 0:
        raise FirstwordError(
            f"`{' '.join(command)[:200]}` failed (exit code {code})",
            mend=f"its message above tells why; then run this again (or delete {paths.home()} to start over)",
            code=Exit.ENVIRONMENT,
        )


# An environment without bytecode starts every process 15 s slower; another PYTHONPATH would leak in.
_KEPT_OUT = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"})


def _ensure(name: str, lock_name: str, finish: Callable[[str, Path, bool], None], *, extra: str, room: int) -> Path:
    require_python()
    folder, lock = paths.home() / name, requirements(lock_name)
    wanted = "-".join((_digest(lock, requirements("build"), requirements("uv")), sys.version.split()[0], extra))
    with locked(name):
        if _stamp(folder) == wanted and (folder / "bin/python").exists():
            return folder
        _require_room(room if not folder.exists() else room // 4)
        installer = str(uv())
        (folder / _STAMP).unlink(missing_ok=True)
        with step(f"making the {name} environment in {folder} ({lock.name})"):
            fresh = not (folder / "bin/python").exists()
            if fresh:
                run([installer, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)])
            run(
                [
                    *(installer, "pip", "sync", "--python", str(folder), "--require-hashes"),
                    *("--build-constraints", str(requirements("build")), "--compile-bytecode", str(lock)),
                    # On a terminal its progress bars; in a log not one line for each of 224 packages.
                    *([] if sys.stderr.isatty() else ["--quiet"]),
                ],
                UV_LINK_MODE=os.environ.get("UV_LINK_MODE", "hardlink"),
            )
            finish(installer, folder, fresh)
        _write_stamp(folder, wanted)
    return folder


def _require_node() -> str:
    """Return the version of Node.js, whose SDKs need one that has ``fetch``."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    version = ""
    if not missing:
        version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    number = version.removeprefix("v").partition(".")[0]
    if not number.isdecimal() or int(number) < LEAST_NODE:
        found = f"{' and '.join(missing)} missing" if missing else f"found {version or 'none that runs'}"
        raise FirstwordError(
            f"Node.js {LEAST_NODE} or newer with npm is needed for the JavaScript SDK's tests; {found}",
            mend="install both (apt-get install nodejs npm, or a newer Node.js of its publisher's)",
            code=Exit.ENVIRONMENT,
        )
    return version


def _finish_engine(installer: str, folder: Path, fresh: bool) -> None:
    base = [installer, "pip", "install", "--quiet", "--python", str(folder), "--no-deps"]
    if not fresh:
        # A tree that carries an older series, or half of one, is refused by `apply`: take the stock files again.
        again = [word for package in _PATCHED for word in ("--reinstall-package", package)]
        run([*base, "--require-hashes", "--compile-bytecode", *again, "-r", str(requirements("engine-cpu"))])
    run([*base, "--editable", str(paths.root())])
    run([str(folder / "bin/firstword"), "patches", "apply"])


def _finish_gateway(installer: str, folder: Path, fresh: bool) -> None:
    del fresh
    run([installer, "pip", "install", "--quiet", "--python", str(folder), "--no-deps", "--editable", str(paths.root())])


def _finish_dev(installer: str, folder: Path, fresh: bool) -> None:
    del installer, fresh
    site = next((folder / "lib").glob("python3*/site-packages"))
    packages = next((paths.home() / "engine/lib").glob("python3*/site-packages"))
    (site / "engine.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n", encoding="utf-8")


def _series_digest() -> str:
    patches = paths.root() / "patches"
    files = sorted(p for p in patches.rglob("*") if p.is_file() and p.suffix != ".md")
    return _digest(*files)


def _digest(*files: Path) -> str:
    total = hashlib.sha256()
    for file in files:
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.hexdigest()[:16]


def _stamp(folder: Path) -> str | None:
    try:
        return str(json.loads((folder / _STAMP).read_text(encoding="utf-8"))["made_from"])
    except (OSError, ValueError, KeyError):
        return None


def _write_stamp(folder: Path, made_from: str) -> None:
    (folder / _STAMP).write_text(json.dumps({"made_from": made_from}) + "\n", encoding="utf-8")


def _require_room(needed: int) -> None:
    home = paths.home()
    home.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home).free
    if free < needed:
        raise FirstwordError(
            f"{free / 1e9:.1f} GB free in {home}, {needed / 1e9:.1f} GB needed",
            mend="free disk space, or set FIRSTWORD_HOME to a folder on a larger disk",
            code=Exit.DISK_FULL,
        )


@contextmanager
def locked(name: str, waiting: str | None = None) -> Iterator[None]:
    """Let one process at a time do something here; the others wait and find it done.

    Args:
        name: Of what is done.
        waiting: What to say before a wait.
    """
    folder = paths.home()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                say(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
