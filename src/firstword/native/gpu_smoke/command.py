"""Verify a GPU host: build, start with the real weights, try everything, report, take it down again.

  scripts/gpu-smoke                     on a machine whose `docker info` shows NVIDIA GPUs
  scripts/gpu-smoke --rehearse          the same on any machine: the CPU images, synthetic checkpoints
  scripts/gpu-smoke --out report        where the report goes (it must not be there yet, or be an older report)
  scripts/gpu-smoke --down              take down what a run left that was killed (kill -9, a runner that went away)

Which models, shapes and GPUs: .env, as for `docker compose up` (.env.example tells each setting). Its containers are
a compose project of their own, on a free port, so a stack that runs already is left alone, but needs its memory.

Steps, each with its own limit of time: `docker compose build`, `up --wait`, the smoke image's whole suite, `down`. A
container that ends at any time, even one that is started again, ends the run with its cause. `down` comes always:
after a failure, Ctrl-C, SIGTERM and a limit. Checkpoints are kept in a volume for the next run; a rehearsal keeps none.

The report folder holds
  report.json   ok, the failure with its step, cause and mend, seconds a step, the host, the images, and the figures:
                first audio and the real-time factor (seconds of work for a second of audio) of each model
  smoke/        the suite's table, JUnit XML, JSON and every sound
  logs/         each container's log, what its health check said, the build's output

Ends with 0 when all of it passed, 61 when a check of the suite failed, 60 when the stack was not ready in time,
52 without a Docker engine or GPUs, an engine's own code when it ended (docs/troubleshooting.md), 130 after Ctrl-C.
"""

import argparse
import socket
from dataclasses import dataclass
from pathlib import Path

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.native import docker, environments
from firstword.native.console import say
from firstword.native.gpu_smoke.report import Report
from firstword.native.gpu_smoke.run import Limits, Run

PROJECT = "firstword-gpu-smoke"


@dataclass(frozen=True)
class _Usual:
    """Limits in seconds: on GPUs `up` may fetch 25 GB, and compiles."""

    gpu: float
    cpu: float


_USUAL = {"build": _Usual(3600, 1800), "ready": _Usual(3600, 900), "smoke": _Usual(1800, 1800)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``scripts/gpu-smoke`` takes."""
    parser.add_argument("--rehearse", action="store_true", help="without a GPU: the CPU files, synthetic checkpoints")
    parser.add_argument("--out", type=Path, metavar="DIR", help="report folder (default: .firstword/reports/gpu-smoke)")
    parser.add_argument("--no-build", action="store_true", help="use the images that are there")
    parser.add_argument("--down", action="store_true", help="take down what an earlier run left, and do nothing else")
    parser.add_argument("--keep", action="store_true", help="leave a stack that passed running, to look at it")
    parser.add_argument("--project", default=PROJECT, metavar="NAME", help="compose project (default: %(default)s)")
    parser.add_argument("--port", type=int, help="to publish the one address on (default: a free one)")
    for step, usual in _USUAL.items():
        parser.add_argument(
            f"--{step}-timeout",
            type=float,
            metavar="S",
            help=f"seconds for {step} (default: {usual.gpu:.0f}; {usual.cpu:.0f} in a rehearsal)",
        )


def run(args: argparse.Namespace) -> int:
    """Do all of it, or only take down.

    Raises:
        FirstwordError: Whatever kept the host from passing; it stands in report.json too.
    """
    files = _files(rehearse=args.rehearse)
    with environments.locked("gpu-smoke", "another scripts/gpu-smoke is at work: waiting for it"):
        project = {"COMPOSE_PROJECT_NAME": args.project, "FIRSTWORD_PORT": str(args.port or _free_port())}
        # A rehearsal must not find what an earlier one made.
        options = ("--volumes",) if args.rehearse else ()
        if args.down:
            Run(files, project, paths.home() / "logs/gpu-smoke", options).down()
            return int(Exit.OK)
        report = Report(args.out or paths.home() / "reports/gpu-smoke", rehearsal=args.rehearse)
        limits = Limits(**{step: _seconds(args, step) for step in _USUAL})
        Run(files, project, report.folder / "logs", options).all(
            report, limits, build=not args.no_build, keep=args.keep
        )
    say(report.told())
    return int(Exit.OK)


def _files(*, rehearse: bool) -> tuple[str, ...]:
    found = docker.find()
    if not isinstance(found, docker.Docker):
        raise FirstwordError(found, mend="start Docker, with Compose, and run this again", code=Exit.ENVIRONMENT)
    if rehearse:
        return docker.CPU
    if found.files != docker.GPU:
        raise FirstwordError(
            f"no GPUs for containers: {found.why}",
            mend="install NVIDIA's container toolkit (nvidia-ctk runtime configure), or use --rehearse",
            code=Exit.ENVIRONMENT,
        )
    return found.files


def _seconds(args: argparse.Namespace, step: str) -> float:
    given = getattr(args, f"{step}_timeout")
    usual = _USUAL[step].cpu if args.rehearse else _USUAL[step].gpu
    seconds = float(usual if given is None else given)
    if not seconds > 0:
        raise FirstwordError(f"--{step}-timeout is {given}", mend="give seconds above 0", code=Exit.USAGE)
    return seconds


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
