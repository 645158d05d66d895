"""Make docker/requirements/*.txt from *.in, with hashes, as locks.toml says.

scripts/lock            make all again; versions move only where an .in file or locks.toml has changed
scripts/lock dev uv     some of them
scripts/lock --check    change nothing; fail when a .txt is not what its .in gives
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.native import environments
from firstword.native.console import say

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``scripts/lock`` takes."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="locks to make (default: all)")
    parser.add_argument("--check", action="store_true", help="compare only")


def run(args: argparse.Namespace) -> int:
    """Make or compare the locks.

    Raises:
        FirstwordError: With ``--check``, a lock that its .in file does not give.
    """
    folder = paths.root() / "docker/requirements"
    settings = tomllib.loads((folder / "locks.toml").read_text(encoding="utf-8"))
    unknown = sorted(set(args.names) - set(settings))
    if unknown:
        raise FirstwordError(
            f"no lock named {', '.join(unknown)}", mend=f"one of {', '.join(settings)}", code=Exit.USAGE
        )
    # uv itself locks the installer; the first time there is no lock to install it from.
    installer = str(environments.uv()) if (folder / "uv.txt").exists() else (shutil.which("uv") or "uv")
    stale = []
    for name in args.names or settings:
        before = folder / f"{name}.txt"
        with tempfile.TemporaryDirectory() as scratch:
            made = Path(scratch) / before.name
            if before.exists():
                shutil.copy(before, made)  # uv keeps the versions it finds there
            _compile(installer, folder, name, settings[name], made)
            if args.check:
                if not before.exists() or made.read_bytes() != before.read_bytes():
                    stale.append(name)
            else:
                shutil.copy(made, before)
                say(f"{before.name}: {len(pins(before))} packages")
    if stale:
        raise FirstwordError(
            f"{', '.join(stale)}: the .txt is not what the .in gives", mend="run scripts/lock", code=Exit.ENVIRONMENT
        )
    return int(Exit.OK)


def pins(lock: Path) -> dict[str, str]:
    """Return the versions a requirement file pins, by package name."""
    found = (_PIN.match(line) for line in lock.read_text(encoding="utf-8").splitlines())
    return {match[1]: match[2] for match in found if match}


def _compile(installer: str, folder: Path, name: str, settings: dict[str, object], made: Path) -> None:
    command = [
        *(installer, "pip", "compile", "--quiet", "--generate-hashes", "--python", sys.executable),
        *("--custom-compile-command", "scripts/lock", "--exclude-newer", str(settings["exclude-newer"])),
        # Where packages came from is this machine's business; hashes say what they are.
        *("--no-emit-index-url", "--no-emit-find-links"),
    ]
    if "overrides" in settings:
        command += ["--override", str(settings["overrides"])]
    if "constrained-by" in settings:
        own = settings.get("own-versions", [])
        assert isinstance(own, list)
        constraints = made.with_name("constraints.txt")
        kept = {k: v for k, v in pins(folder / f"{settings['constrained-by']}.txt").items() if k not in own}
        constraints.write_text("".join(f"{k}=={v}\n" for k, v in kept.items()), encoding="utf-8")
        command += ["--constraint", str(constraints)]
    result = subprocess.run([*command, f"{name}.in", "-o", str(made)], cwd=folder, check=False)
    if result.returncode != 0:
        raise FirstwordError(
            f"{name}.in cannot be resolved", mend="the installer's message above tells why", code=Exit.ENVIRONMENT
        )
    if "constrained-by" in settings:
        text = made.read_text(encoding="utf-8").replace(str(constraints), f"{settings['constrained-by']}.txt")
        made.write_text(text, encoding="utf-8")
