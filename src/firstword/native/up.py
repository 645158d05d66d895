"""Bring both engines up, one address before them, and return when all are ready.

Where a Docker engine with Compose answers: docker compose, on NVIDIA GPUs where `docker info` shows them,
else on the CPU. Elsewhere without Docker, on this machine's CPU: the first run makes Python environments
from the hash locks (about 7 GB), applies the patch series and makes two small synthetic checkpoints; later
runs only start. Everything is kept in .firstword/ (or FIRSTWORD_HOME) and may be deleted at any time.

  scripts/up                       set up what is missing, start, wait until ready, print three requests to paste
  scripts/up --docker | --native   the one or the other, and nothing else
  scripts/up --status              say what runs
  scripts/up --stop                stop all; nothing is left running
"""

import argparse
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.native import docker, engines, environments, first_requests, stack
from firstword.native import gateway as front
from firstword.native.console import Progress, say, step
from firstword.native.engines import Engine
from firstword.native.gateway import Gateway

SPEECH = "qwen3-tts-customvoice-synthetic"
RECOGNITION = "step-audio-2-mini-synthetic"
_ENGINE_PORTS = {"qwen3-tts": 8091, "step-audio-2": 8092}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``scripts/up`` takes."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--docker", action="store_true", help="use Docker, or say why it cannot be used")
    form.add_argument("--native", action="store_true", help="use Python environments of this machine, without Docker")
    parser.add_argument("--stop", action="store_true", help="stop the engines and the gateway")
    parser.add_argument("--status", action="store_true", help="say what runs; exit code 0 when all is ready")
    parser.add_argument("--port", type=int, help="of the one address (default: 8000, or FIRSTWORD_PORT in .env)")
    native = parser.add_argument_group("without Docker")
    for model, port in _ENGINE_PORTS.items():
        native.add_argument(f"--{model}-port", type=int, metavar="PORT", help=f"default: {port}")
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="for all to become ready (default: 900; 3600 in Docker, downloads included)",
    )


def run(args: argparse.Namespace) -> int:
    """Start, stop or tell.

    Raises:
        FirstwordError: Whatever kept an engine from becoming ready; nothing is left half-started.
    """
    if args.stop:
        return _stop(args)
    if args.status:
        files = None if args.native else stack.started()
        if files is not None:
            return stack.tell(files)
        return _tell([*_engines(args), _gateway(args)])
    files = _compose_files(args)
    if files is None:
        behind, gateway = _engines(args), _gateway(args)
        _require_ports([engine.port for engine in (*behind, gateway)])
        with environments.locked("up", "another scripts/up is at work: waiting for it"):
            return _start(behind, gateway, 900.0 if args.timeout is None else args.timeout)
    with environments.locked("up", "another scripts/up is at work: waiting for it"):
        print(stack.up(files, args.port, 3600.0 if args.timeout is None else args.timeout))
    return int(Exit.OK)


def _compose_files(args: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the compose files to use, or None for the native form; said in one line with its reason.

    Raises:
        FirstwordError: Docker is asked for and cannot be used.
    """
    if args.native:
        return None
    if not args.docker and (args.qwen3_tts_port, args.step_audio_2_port) != (None, None):
        say("without Docker: ports of engines are asked for, which containers do not publish")
        return None
    found = docker.find()
    if isinstance(found, docker.Docker):
        say(f"with Docker, {' and '.join(found.files)}: {found.why}")
        return found.files
    if args.docker:
        raise FirstwordError(
            found, mend="start Docker (with Compose), or use scripts/up --native", code=Exit.ENVIRONMENT
        )
    say(f"without Docker: {found}")
    return None


def _stop(args: argparse.Namespace) -> int:
    stopped = [] if args.native else stack.stop()
    if not args.docker:
        stopped += engines.stop_all()
    say(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    return int(Exit.OK)


def _engines(args: argparse.Namespace) -> list[Engine]:
    given = (args.qwen3_tts_port, args.step_audio_2_port)
    ports = [port if port is not None else usual for port, usual in zip(given, _ENGINE_PORTS.values(), strict=True)]
    return [Engine(SPEECH, ports[0]), Engine(RECOGNITION, ports[1])]


def _gateway(args: argparse.Namespace) -> Gateway:
    return Gateway() if args.port is None else Gateway(port=args.port)


def _start(behind: list[Engine], gateway: Gateway, timeout: float) -> int:
    wanted = [*behind, gateway]
    running = [engine for engine in wanted if engine.supervisor() is not None]
    missing = [engine for engine in wanted if engine not in running]
    for engine in missing:
        engines.require_free(engine)
    environment, own = environments.engine(), environments.gateway()
    to_serve = [engine for engine in missing if engine is not gateway]
    for engine in to_serve:
        _checkpoint(environment, engine.model)
    children: dict[Engine, subprocess.Popen[bytes]] = {}
    try:
        for engine in to_serve:
            children[engine] = engines.start(engine, environment, ["--shape", _shape(engine)])
        if gateway in missing:
            children[gateway] = front.start(gateway, own, behind)
        _wait(wanted, children, timeout)
    except BaseException as error:
        # What ran before goes on.
        engines.stop_all(only=[engine.port for engine in missing])
        if not isinstance(error, FirstwordError):
            say("interrupted: what was started here is stopped")
        raise
    print(requests(gateway))
    return int(Exit.OK)


def _require_ports(ports: list[int]) -> None:
    if len(set(ports)) < len(ports) or not all(0 < port < 65536 for port in ports):
        raise FirstwordError(
            f"the ports {', '.join(map(str, ports))} will not do",
            mend="give three different ones from 1 to 65535: --port, --qwen3-tts-port, --step-audio-2-port",
            code=Exit.USAGE,
        )


def requests(gateway: Gateway) -> str:
    """Return the three requests a newcomer pastes."""
    return f"""
Both engines are ready, at one address. {first_requests.SYNTHETIC} Paste these:

{first_requests.text(gateway.url)}
Logs: {gateway.log.parent}
Stop: scripts/up --stop
"""


def _shape(engine: Engine) -> str:
    return "cpu" if engine.model.startswith("qwen3-tts") else "speech-cpu"


def _checkpoint(environment: Path, model: str) -> None:
    # Always asked: it keeps an equal checkpoint and replaces one that older code made.
    with step(f"checkpoint {model}"):
        environments.run(
            [str(environment / "bin/firstword"), "synthetic", model, str(paths.home() / "checkpoints" / model)]
        )


def _wait(wanted: list[Engine], children: "dict[Engine, subprocess.Popen[bytes]]", timeout: float) -> None:
    progress = Progress("starting", expected=70)
    while not all(engine.ready() for engine in wanted):
        for engine, child in children.items():
            code = child.poll()
            if code is not None:
                progress.end(f"failed: {engine.model}")
                if code == Exit.OK:
                    raise FirstwordError(
                        f"{engine.model} was stopped before it was ready",
                        mend="run scripts/up again",
                        code=Exit.NOT_READY,
                    )
                say(engines.last_words(engine))
                raise FirstwordError(
                    f"{engine.model} ended with exit code {code} before it was ready",
                    mend=f"see {engine.log}",
                    code=Exit(code) if code in set(Exit) else Exit.STAGE_DIED,
                )
        if progress.seconds > timeout:
            raise FirstwordError(
                f"not ready after {timeout:.0f} s", mend="a slow machine needs a longer --timeout", code=Exit.NOT_READY
            )
        progress.update(", ".join(f"{e.model.partition('-synthetic')[0]}: {_state(e)}" for e in wanted))
        time.sleep(0.2)
    progress.end("ready")


def _state(engine: Engine) -> str:
    if engine.ready():
        return "ready"
    if isinstance(engine, Gateway):
        return "waiting for the engines"
    try:
        log = engine.log.read_bytes()[-200_000:]
    except OSError:
        return "checking"
    marks = (
        (b"Application startup complete", "first request"),
        (b"Orchestrator ready", "opening the API"),
        (b"[StageRuntime] Stage 0 initialized", "loading the second stage"),
        (b"Set runtime devices", "loading"),
        (b"firstword serve: configuration", "importing"),
    )
    return next((word for mark, word in marks if mark in log), "checking")


def _tell(wanted: list[Engine]) -> int:
    # What was started on other ports than the ones named now runs too.
    ports = {engine.model: engine.port for engine in engines.running()}
    wanted = [replace(engine, port=ports.get(engine.model, engine.port)) for engine in wanted]
    for engine in wanted:
        pid = engine.supervisor()
        word = "not running" if pid is None else "ready" if engine.ready() else _state(engine)
        print(f"{engine.model}  {engine.url}  {word}")
        if pid is None and engine.started.exists():  # it ended by itself: nobody has stopped it
            print(textwrap.indent(engines.last_words(engine), "  "))
    sys.stdout.flush()
    return int(Exit.OK if all(engine.ready() and engine.supervisor() for engine in wanted) else Exit.NOT_READY)
