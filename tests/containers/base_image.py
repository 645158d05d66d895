"""The image that the Dockerfiles begin with: the pinned public one, else a likeness made here.

Where no registry can be reached, Debian's packages and this machine's own Python 3.12 make an image that stands in for
it: the same release, the same place for Python, the same emptiness.
"""

import hashlib
import inspect
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import debian
import docker_engine

from firstword import paths

# What CPython's standard library is linked with, and what the public image has beside.
LIBRARIES = (
    *("ca-certificates", "netbase", "tzdata", "libssl3", "libffi8", "libsqlite3-0", "libbz2-1.0", "liblzma5"),
    *("libreadline8", "libncursesw6", "libuuid1", "libexpat1", "zlib1g"),
)
RELEASE = "bookworm"
# What "slim" leaves out.
SLIM = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "info", "locale", "man")]
LEFT_OUT = re.compile(r"/(site-packages|test|tests|idlelib|turtledemo|__pycache__|config-3[^/]*)(/|$)|\.a$")


def pinned():
    """Return the public image that the Dockerfiles name."""
    text = (paths.root() / "docker/engine.Dockerfile").read_text()
    return re.search(r"^ARG BASE_IMAGE=(\S+)$", text, re.MULTILINE)[1]


def get(docker):
    """Return the name of the base image, pulled or made; ``FIRSTWORD_BASE_IMAGE`` names another one."""
    given = os.environ.get("FIRSTWORD_BASE_IMAGE")
    if given:
        return given
    if docker("pull", "--quiet", pinned(), check=False).returncode == 0:
        return pinned()
    recipe = f"{inspect.getsource(sys.modules[__name__])}{sys.version}".encode()
    name = f"firstword-base:{hashlib.sha256(recipe).hexdigest()[:12]}"
    if docker("image", "inspect", name, check=False).returncode != 0:
        _make(docker, name)
    return name


def _make(docker, name):
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as scratch:
        archive = Path(scratch) / "base.tar"
        programs = docker_engine.tools() / "usr/bin"
        subprocess.run(
            [
                *("perl", str(programs / "mmdebstrap"), "--quiet", "--mode=root", "--variant=minbase"),
                *("--dpkgopt=force-unsafe-io", *SLIM, f"--include={','.join(LIBRARIES)}"),
                *(RELEASE, str(archive), debian.source(RELEASE)),
            ],
            env=os.environ | {"TMPDIR": scratch, "PATH": f"{os.environ['PATH']}:{programs}"},
            stdin=subprocess.DEVNULL,
            check=True,
        )
        with tarfile.open(archive, "a") as tar:
            for part in ("bin", "lib", "include"):
                for entry in sorted((Path(sys.base_prefix) / part).iterdir()):
                    tar.add(entry, f"usr/local/{part}/{entry.name}", filter=_kept)
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        changes = [f"ENV PATH={path}", "ENV LANG=C.UTF-8", 'CMD ["python3"]']
        options = [word for change in changes for word in ("-c", change)]
        with archive.open("rb") as stream:
            docker("import", *options, "-", f"{name}-bare", stdin=stream)
    # Outside a container nothing can run in it: the linker's cache, pip and the short names are made in one.
    steps = ("ldconfig", "python3.12 -m ensurepip --upgrade", "ln -sf python3.12 /usr/local/bin/python")
    docker("build", "--tag", name, "-", input=f"FROM {name}-bare\nRUN {' && '.join(steps)}\n")


def _kept(member):
    if LEFT_OUT.search(f"/{member.name}"):
        return None
    scripts = re.search(r"^usr/local/bin/(?!python3)", member.name)
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return None if scripts else member
