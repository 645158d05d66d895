"""Bring both engines up on this machine's CPU, one address before them, and return when all are ready.

The first run makes Python environments from the hash locks (about 7 GB), applies the patch series and
makes two small synthetic checkpoints; later runs only start the engines and the gateway. Everything is
kept in .firstword/ (or FIRSTWORD_HOME) and may be deleted at any time.

  scripts/up            set up what is missing, start, wait until ready, print three requests to paste
  scripts/up --status   say what runs
  scripts/up --stop     stop all; nothing is left running
"""

import argparse
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.native import engines, environments
from firstword.native import gateway as front
from firstword.native.console import Progress, say, step
from firstword.native.engines import Engine
from firstword.native.gateway import Gateway

SPEECH = "qwen3-tts-customvoice-synthetic"
RECOGNITION = "step-audio-2-mini-synthetic"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``scripts/up`` takes."""
    parser.add_argument("--stop", action="store_true", help="stop the engines and the gateway")
    parser.add_argument("--status", action="store_true", help="say what runs; exit code 0 when all is ready")
    parser.add_argument("--port", type=int, default=8000, help="of the one address (default: %(default)s)")
    parser.add_argument("--qwen3-tts-port", type=int, default=8091, metavar="PORT", help="default: %(default)s")
    parser.add_argument("--step-audio-2-port", type=int, default=8092, metavar="PORT", help="default: %(default)s")
    parser.add_argument(
        "--timeout", type=float, default=900.0, metavar="S", help="for all to become ready (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Start, stop or tell.

    Raises:
        FirstwordError: Whatever kept an engine from becoming ready; nothing is left half-started.
    """
    if args.stop:
        stopped = engines.stop_all()
        say(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
        return int(Exit.OK)
    behind = [Engine(SPEECH, args.qwen3_tts_port), Engine(RECOGNITION, args.step_audio_2_port)]
    gateway = Gateway(port=args.port)
    wanted = [*behind, gateway]
    if args.status:
        return _tell(wanted)
    _require_ports([engine.port for engine in wanted])
    with environments.locked("up", "another scripts/up is at work: waiting for it"):
        return _start(behind, gateway, args.timeout)


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
    except BaseException:
        # What ran before goes on.
        engines.stop_all(only=[engine.port for engine in missing])
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
Both engines are ready, at one address. The checkpoints are synthetic: real architectures, small
made-up weights, so the voice is noise-like and the transcript is made-up words. Paste these:

# 1. speech: text in, a WAV file out
curl -sS --fail-with-body {gateway.url}/v1/audio/speech -H 'Content-Type: application/json' \\
  -d '{{"model": "tts-1", "input": "Hello, world.", "voice": "alloy", "response_format": "wav"}}' -o hello.wav

# 2. the same, streamed: the first samples arrive while the rest is still being made
curl -sSN --fail-with-body {gateway.url}/v1/audio/speech -H 'Content-Type: application/json' \\
  -d '{{"model": "tts-1", "input": "Hello, world.", "voice": "alloy", "response_format": "wav",
       "stream_format": "audio"}}' -o streamed.wav

# 3. recognition: the WAV made by the first request in, text out
curl -sS --fail-with-body {gateway.url}/v1/audio/transcriptions -F model=whisper-1 -F file=@hello.wav

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
    sys.stdout.flush()
    return int(Exit.OK if all(engine.ready() and engine.supervisor() for engine in wanted) else Exit.NOT_READY)
