"""Run all checks: lint, types, unit tests, patch tests, both real engines on the CPU, the gateway, the containers.

  scripts/test              as CI does; about fifty minutes on two cores once the environments are made
  scripts/test lint unit    some of it: lint, unit, patches, engine, gateway, containers
  scripts/test containers   the images and compose files on a real Docker engine, started when none runs (as root)
  scripts/test containers-cuda   the GPU image, built and imported from without a GPU; only when named: 30 GB of disk
  scripts/test containers-wheels  whether the engine's wheels make the same files twice; only when named: 30 GB of disk
  scripts/test browser      a streamed WAV played by Chromium (apt-get install chromium); only when named
  scripts/test engine -- -k streamed      what follows -- goes to pytest

A test that does not run is a failure here, unless -- narrows what is asked for. Where no Docker engine can be used
and none may be started, the containers are told as not run.
"""

import argparse
import os
import subprocess
import time
from pathlib import Path

from firstword import paths
from firstword.errors import Exit
from firstword.native import docker, environments
from firstword.native.console import say

PARTS = ("lint", "unit", "patches", "engine", "gateway", "containers")
# Only when named, else told as not run.
ON_REQUEST = {
    "containers-cuda": "the GPU image",
    "containers-wheels": "the wheels' layers made twice",
    "browser": "a streamed WAV in Chromium",
}
# Parts whose tests share nothing: two at a time. Engines and containers take the whole machine.
_SIDE_BY_SIDE = ("unit", "patches")
_TESTS = {f"containers-{name}": f"tests/containers/{name}.py" for name in ("cuda", "wheels")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``scripts/test`` takes."""
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"one or more of {', '.join(PARTS)} (default: all), or {', '.join(ON_REQUEST)}",
    )
    parser.add_argument("--pytest", nargs=argparse.REMAINDER, default=[], help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Run the parts asked for, all of them even when one fails; return 0 only when all passed."""
    unknown = sorted(set(args.parts) - {*PARTS, *ON_REQUEST})
    if unknown:
        say(f"scripts/test: no part named {', '.join(unknown)}; there are {', '.join((*PARTS, *ON_REQUEST))}")
        return int(Exit.USAGE)
    environment = environments.dev()
    failed, told = [], []
    lacking = None if args.parts else _lacks_docker()
    wanted = args.parts or [part for part in PARTS if part != "containers" or lacking is None]
    for part in [part for part in (*PARTS, *ON_REQUEST) if part in wanted]:
        started = time.monotonic()
        say(f"==> {part}")
        good = _lint(environment) if part == "lint" else _pytest(environment, part, args.pytest)
        told.append(f"{part}: {'passed' if good else 'FAILED'} in {time.monotonic() - started:.0f} s")
        if not good:
            failed.append(part)
    if lacking is not None:
        told.append(f"containers: NOT RUN ({lacking})")
    told += [f"{part}: NOT RUN ({what}; scripts/test {part})" for part, what in ON_REQUEST.items() if not args.parts]
    say("\n".join(["", *told]))
    return int(Exit.DEFECT if failed else Exit.OK)


def _lacks_docker() -> str | None:
    """Return why the containers cannot be tried here, None when they can; root may start an engine for it."""
    if os.geteuid() == 0:
        return None
    found = docker.find()
    return None if isinstance(found, docker.Docker) else f"{found}; root can start an engine for them"


def _lint(environment: Path) -> bool:
    root, tools = paths.root(), environment / "bin"
    folders = ("scripts", "docker/wheels", "docker/finish", "docker/sbom")
    scripts = [*(file for folder in folders for file in sorted((root / folder).iterdir())), root / ".ci/run"]
    shell = [str(file) for file in scripts if file.is_file() and file.suffix != ".py"]
    workflows = map(str, sorted((root / ".github/workflows").glob("*.yml")))
    # Ruff's cache does not see that a file moved, and the order of another file's imports depends on it.
    checks = (
        [str(tools / "ruff"), "check", "--no-cache"],
        [str(tools / "ruff"), "format", "--no-cache", "--check"],
        [str(tools / "mypy")],
        [str(tools / "shellcheck"), *shell],
        [str(tools / "yamllint"), "--strict", "."],
        [str(tools / "hadolint"), *map(str, sorted((root / "docker").glob("*.Dockerfile")))],
        [str(tools / "actionlint"), "-shellcheck", str(tools / "shellcheck"), *workflows],
        [str(tools / "zizmor"), "--offline", "--quiet", "--persona", "pedantic", ".github"],
    )
    return all([subprocess.run(check, cwd=root, check=False).returncode == 0 for check in checks])  # noqa: C419  # run all


def _pytest(environment: Path, part: str, extra: list[str]) -> bool:
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    everything = [] if extra else ["--require-all"]
    if part in _SIDE_BY_SIDE and not extra:
        everything.append("--numprocesses=2")
    reports = paths.home() / "reports"
    command = [
        *(str(environment / "bin/python"), "-m", "pytest", _TESTS.get(part, f"tests/{part}"), *everything),
        *(f"--junitxml={reports}/{part}.xml", "--durations=8", *extra),
    ]
    return subprocess.run(command, cwd=paths.root(), env=clean, check=False).returncode == 0
