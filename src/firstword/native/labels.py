"""What the images' labels say of the checkout that they are built from. Standard library only."""

import hashlib
import re
import subprocess
from pathlib import Path

import firstword
from firstword import paths


def build_arguments() -> dict[str, str]:
    """Return the Dockerfiles' build arguments for labels; without Git those of the commit are left out."""
    lock = (paths.root() / "docker/requirements/engine-cuda.txt").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^(vllm|vllm-omni)==(\S+)", lock, re.MULTILINE))
    told = {
        "LABEL_VERSION": firstword.__version__,
        "LABEL_VLLM": pins["vllm"],
        "LABEL_VLLM_OMNI": pins["vllm-omni"],
        "LABEL_SERIES": series_sha256(),
    }
    for name, words in (("REVISION", ("rev-parse", "HEAD")), ("SOURCE_DATE_EPOCH", ("log", "-1", "--format=%ct"))):
        try:
            done = subprocess.run(["git", *words], cwd=paths.root(), capture_output=True, text=True, check=False)
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.strip():
            told[name] = done.stdout.strip()
    return told


def series_sha256(folder: Path | None = None) -> str:
    """Return a patch series' own checksum, as `firstword patches list --json` gives it; this checkout's by default."""
    folder = folder or paths.root() / "patches"
    digests = ((name, hashlib.sha256((folder / name).read_bytes()).hexdigest()) for name in series_names(folder))
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in digests).encode()).hexdigest()


def series_names(folder: Path) -> list[str]:
    """Return the names of a series' patches, in order."""
    lines = (line.partition("#")[0].strip() for line in (folder / "series").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]
