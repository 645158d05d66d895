"""Serve one model: check everything, start vLLM-Omni, say "ready" after the first real answer.

  firstword serve qwen3-tts-1.7b-customvoice            one GPU, chosen by what is there
  firstword serve step-audio-2-mini --shape asr-1x24g   recognition only, on a 24 GB GPU
  firstword serve step-audio-2-mini-synthetic           on the CPU, with a small synthetic checkpoint
  firstword serve ./my-checkpoint --shape cpu           any checkpoint folder of these architectures

The order is: resolve the checkpoint at its pinned revision and verify it, choose the deploy config,
preflight, start, first real answer, ready. Each failure ends with one line of cause, one that mends
it, and an exit code of its own. An engine that stops answering is ended, so that a restart policy acts.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from firstword import paths
from firstword.engine.environment import engine_environment
from firstword.engine.scratch import alone, scratch
from firstword.errors import Exit, FirstwordError

if TYPE_CHECKING:
    from firstword.engine.config import EngineConfig
    from firstword.engine.models import Checkpoint

DEFAULT_PORT = 8091
PREFIX = "firstword serve: "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``firstword serve`` takes."""
    parser.add_argument("model", metavar="MODEL", help="a name from `firstword models list`, or a checkpoint folder")
    config = parser.add_mutually_exclusive_group()
    config.add_argument(
        "--shape", help="a deploy config of the model's family (default: chosen by the devices present)"
    )
    config.add_argument("--deploy-config", type=Path, metavar="FILE", help="a deploy config of your own")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port to listen on (default: %(default)s)")
    parser.add_argument("--name", help="the model id clients use (default: MODEL, or the folder's name)")
    parser.add_argument("--offline", action="store_true", help="never download; say what is missing instead")
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print the resolved configuration and stop: nothing is downloaded or checked",
    )
    parser.add_argument(
        "--start-timeout", type=float, default=900.0, metavar="S", help="to listen (default: %(default)s)"
    )
    parser.add_argument(
        "--answer-timeout", type=float, default=600.0, metavar="S", help="to the first answer (default: %(default)s)"
    )
    parser.add_argument(
        "--stall-timeout",
        type=float,
        default=90.0,
        metavar="S",
        help="end an engine whose checks fail for so long (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="also print a failure as one JSON line")


def run(args: argparse.Namespace) -> int:
    """Serve until stopped; see the module's docstring.

    Raises:
        FirstwordError: Whatever kept it from serving, or ended it.
    """
    _require_sense(args)
    checkpoint, config = _prepare(args)
    resolved = {
        "model": args.name or checkpoint.name,
        "family": checkpoint.family,
        "kind": checkpoint.kind,
        "checkpoint": str(checkpoint.path),
        "revision": checkpoint.revision,
        "shape": config.shape,
        "deploy_config": config.resolved(),
    }
    say(f"configuration {config.sha256} ({config.family}/{config.shape}):")
    print(json.dumps(resolved, indent=1, default=str), flush=True)
    if args.print_config:
        return int(Exit.OK)

    _preflight(args, checkpoint, config)
    say("checked: nothing is missing")

    with scratch() as folder:
        return _supervise(args, checkpoint, config, folder)


def _supervise(args: argparse.Namespace, checkpoint: "Checkpoint", config: "EngineConfig", folder: Path) -> int:
    from firstword.acceptance import probe
    from firstword.acceptance import state as memory
    from firstword.engine import supervisor
    from firstword.engine.output import Output

    name, url = args.name or checkpoint.name, f"http://{_reachable(args.host)}:{args.port}"
    environment = engine_environment(config.device, paths.home() / "cache", scratch=folder)
    environment.setdefault("VLLM_LOGGING_CONFIG_PATH", str(Path(__file__).with_name("logging.json")))
    record, state, output = memory.record_file(url), memory.state_file(url), Output()

    def first_answer() -> str:
        return probe.first_answer(url, state=state, record=record, timeout=args.answer_timeout)

    def still_answers() -> str | None:
        return probe.still_answers(url, state=state, record=record)

    engine = supervisor.Supervisor(
        command(checkpoint.path, config.path, name, args.host, args.port),
        environment,
        record=record,
        about={"url": url, "model": name, "supervisor": os.getpid(), "kinds": _kinds(checkpoint, config)},
        alive=lambda: listens(url),
        first_answer=first_answer,
        still_answers=still_answers,
        timing=supervisor.Timing(start=args.start_timeout, first_answer=args.answer_timeout, stall=args.stall_timeout),
        say=lambda line: output.err(PREFIX + line),
        show=output.out,
        port=args.port,
    )
    with alone(record.with_suffix(".lock"), f"serves on port {args.port}, or is about to"):
        state.unlink(missing_ok=True)
        try:
            return engine.run()
        finally:
            for file in (state, state.with_suffix(".lock")):
                file.unlink(missing_ok=True)
            output.flush()


def command(checkpoint: Path, deploy_config: Path, name: str, host: str, port: int) -> list[str]:
    """Return the engine's command line: vLLM-Omni's own, from this environment, with everything explicit."""
    return [
        sys.executable,
        "-m",
        "firstword.engine.launch",
        "serve",
        str(checkpoint),
        "--omni",
        # Without it, the async-chunk pipelines start with defaults that break them (#5916).
        "--deploy-config",
        str(deploy_config),
        "--served-model-name",
        name,
        "--host",
        host,
        "--port",
        str(port),
        # Step-Audio-2's configuration class is remote code; the checkpoint's .py files were verified before this.
        "--trust-remote-code",
        # Reference audio by URL is closed; data URLs and uploads remain.
        "--allowed-media-domains",
        "invalid.",
        # Unknown routes and methods answer in OpenAI's error shape too.
        "--middleware",
        "firstword.engine.error_shape.ErrorShape",
    ]


def say(line: str) -> None:
    """Print one of the supervisor's own lines, told apart from the engine's by its prefix."""
    print(PREFIX + line, file=sys.stderr, flush=True)


def listens(url: str) -> bool:
    """Return whether the server answers ``/health`` at all; that alone is no readiness."""
    from firstword.acceptance.asking import Server

    try:
        Server(url).health()
    except FirstwordError:
        return False
    return True


def _require_sense(args: argparse.Namespace) -> None:
    from firstword.acceptance.arguments import require_seconds

    if not 0 < args.port < 65536:
        raise FirstwordError(f"--port is {args.port}", mend="pass one from 1 to 65535", code=Exit.USAGE)
    for name in ("start_timeout", "answer_timeout", "stall_timeout"):
        require_seconds(f"--{name.replace('_', '-')}", getattr(args, name), 0.001)


def _reachable(host: str) -> str:
    """Return the address under which a server bound to ``host`` is reached from this machine."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104


def _kinds(checkpoint: "Checkpoint", config: "EngineConfig") -> list[str]:
    """Return the kinds of request to ask for first; recognition alone makes no sound."""
    from firstword.acceptance import kinds

    names = (checkpoint.name, f"{checkpoint.family}-{checkpoint.kind.replace('_', '')}")
    return list(kinds.kinds_of(*names, has_audio_out=config.speaks))


def _prepare(args: argparse.Namespace) -> "tuple[Checkpoint, EngineConfig]":
    from firstword.engine import config as configs
    from firstword.engine import models
    from firstword.engine.preflight import Context, Probes
    from firstword.engine.preflight.installed import built_for
    from firstword.engine.preflight.machine import no_driver, other_build
    from firstword.engine.preflight.requiring import PreflightFailed

    gpus = Probes().devices("cuda")
    device = built_for()
    described = models.describe(args.model)
    if args.deploy_config:
        config = configs.load_file(args.deploy_config, described.family, device)
    else:
        shape = args.shape or configs.choose_shape(described.family, gpus, built_for=device)
        config = configs.load(described.family, shape)
    if args.print_config:
        return described, config
    # Before a download of many gigabytes, which the preflight comes after.
    context = Context(device=config.device, family=described.family, deploy_config=config.path)
    if found := list(other_build(context)):
        raise PreflightFailed(found)
    if device == "cuda" and not gpus:
        raise no_driver()
    return models.resolve(args.model, offline=args.offline, report=say, speaks=config.speaks), config


def _preflight(args: argparse.Namespace, checkpoint: "Checkpoint", config: "EngineConfig") -> None:
    from firstword.engine import preflight

    preflight.require(checkpoint, config, host=args.host, port=args.port)
