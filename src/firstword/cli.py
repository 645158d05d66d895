"""The ``firstword`` command.

Each subcommand lives in a module of its own with two functions: ``add_arguments(parser)`` and
``run(args) -> int``. The module is imported only when its subcommand is used, so that ``firstword
probe`` stays fast and ``firstword patches`` works before anything heavy is installed.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from firstword import __version__, ending
from firstword.errors import Exit, FirstwordError

# name -> (module, one line of help)
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("firstword.engine.serve", "check everything, then serve one model"),
    "preflight": (
        "firstword.engine.preflight.command",
        "check everything that serving will need, and say all that is missing",
    ),
    "probe": ("firstword.acceptance.probe", "ask a server for its first real answer and judge it"),
    "gateway": ("firstword.gateway.command", "serve all models at one OpenAI-compatible address"),
    "smoke": ("firstword.acceptance.smoke.command", "run the whole acceptance suite against a stack that runs"),
    "models": ("firstword.engine.models.command", "list, download and verify checkpoints at their pinned revisions"),
    "synthetic": ("firstword.synthetic.command", "make a small checkpoint of a real architecture, without a download"),
    "patches": ("firstword.patching.command", "apply, verify, list or refresh the patch series"),
    "bench": ("firstword.bench.command", "measure, side by side in one run"),
}


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser; with ``only``, just that subcommand's module is imported."""
    parser = argparse.ArgumentParser(
        prog="firstword", description="Serve speech models; ready only after a first real answer."
    )
    parser.add_argument("--version", action="version", version=f"firstword {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module, text) in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == only:
            loaded = importlib.import_module(module)
            sub.description = (loaded.__doc__ or text).strip()
            sub.formatter_class = argparse.RawDescriptionHelpFormatter
            loaded.add_arguments(sub)
            sub.set_defaults(run=loaded.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code. Expected failures print cause and mend on stderr."""
    args = list(sys.argv[1:] if argv is None else argv)
    only = next((a for a in args if a in COMMANDS), None)
    return ending.run(f"firstword {only}", lambda: _run(only, args), as_json="--json" in args)


def _run(only: str | None, args: list[str]) -> int:
    try:
        options = build_parser(only).parse_args(args)
        return int(options.run(options))
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] == "firstword":
            raise  # a defect
        raise _missing(error.name) from error


def _missing(module: str) -> FirstwordError:
    return FirstwordError(
        f"the Python environment {sys.prefix} has no module {module}, which this command needs",
        mend="use the environment that scripts/up or the image makes, or install into it again from its lock",
        code=Exit.ENVIRONMENT,
    )
