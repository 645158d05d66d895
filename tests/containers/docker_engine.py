"""A real Docker engine: the one that runs here, else one started for these tests and ended after them.

Nothing is installed. Docker 26 with compose and buildx comes from Debian's trixie; what depends on this
machine's C library (containerd, runc, iptables) from its own suite.
"""

import ctypes
import hashlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import debian

from firstword import paths

PR_SET_PDEATHSIG = 1
FROM_TRIXIE = ("docker.io", "docker-cli", "docker-buildx", "docker-compose")
FROM_OWN = (
    *("containerd", "runc", "iptables", "libip4tc2", "libip6tc2", "libnftnl11", "libmnl0", "libnfnetlink0"),
    *("libnetfilter-conntrack3", "libxtables12", "mmdebstrap"),
)
IPTABLES = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")
START_SECONDS = 60
# The engine image, the cache it is built from and the layers in between.
NEEDED_BYTES = 24_000_000_000


class Docker:
    """The docker command, on an engine that runs.

    Attributes:
        environment: With it, ``docker`` is the right program and speaks to the right engine.
        started: Whether the engine was started here, and so is ended by `stop`.
    """

    def __init__(self, environment, daemon=None):
        self.environment = environment
        self.started = daemon is not None
        self._daemon = daemon

    def __call__(self, *arguments, check=True, seconds=900, **options):
        """Run ``docker ARGUMENTS`` and return the finished process with its output as text."""
        done = subprocess.run(
            ["docker", *arguments],
            env=self.environment | options.pop("env", {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            **({"stdin": subprocess.DEVNULL} if "stdin" not in options and "input" not in options else {}),
            **options,
        )
        if check and done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-60:])
            raise AssertionError(f"docker {' '.join(arguments)[:200]} ended with {done.returncode}:\n{tail}")
        return done

    def root(self):
        """Return the folder where the engine keeps images, or None where it is another machine's."""
        folder = Path(self("info", "--format", "{{.DockerRootDir}}").stdout.strip())
        return folder if folder.is_dir() else None

    def stop(self):
        """End the engine, when it was started here."""
        if self._daemon is None:
            return
        # Builds of earlier runs, which nothing names any more. The cache stays: it is what makes the next run short.
        self("image", "prune", "--force", check=False)
        self._daemon.terminate()
        try:
            self._daemon.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._daemon.pid, signal.SIGKILL)
            self._daemon.wait()
        shutil.rmtree(_sockets(), ignore_errors=True)


def get():
    """Return a working Docker; its engine is started if none runs."""
    running = Docker(dict(os.environ))
    if shutil.which("docker") and all(
        running(*words, check=False).returncode == 0
        for words in (("info",), ("compose", "version"), ("buildx", "version"))
    ):
        return running
    folder = tools()
    plugins = paths.home() / "docker/config/cli-plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    for plugin in (folder / "usr/libexec/docker/cli-plugins").iterdir():
        if not (plugins / plugin.name).is_symlink():
            (plugins / plugin.name).symlink_to(plugin)
    environment = debian.environment(folder) | {"DOCKER_CONFIG": str(plugins.parent)}
    # One that runs without these plugins, and one that another run of these tests has started.
    for settings in ({}, {"DOCKER_HOST": f"unix://{_sockets()}/docker.sock"}):
        fetched = Docker(environment | settings)
        if fetched("info", check=False).returncode == 0:
            return fetched
    return _start(folder, environment)


def tools():
    """Return the folder with Docker's programs and mmdebstrap, fetched if need be."""
    folder = paths.home() / "docker/tools"
    packages = {"trixie": FROM_TRIXIE}
    packages[debian.suite()] = packages.get(debian.suite(), ()) + FROM_OWN
    debian.unpack(folder, packages)
    for name in IPTABLES:  # what the package's own script would have linked
        link = folder / "usr/sbin" / name
        if not link.is_symlink():
            link.symlink_to("xtables-nft-multi")
    return folder


def _sockets():
    # A socket's path may have 107 characters at most, so it cannot lie in home.
    return Path(f"/run/firstword-docker-{hashlib.sha256(str(paths.home()).encode()).hexdigest()[:8]}")


def _start(folder, environment):
    if os.geteuid() != 0:
        raise RuntimeError("no Docker engine runs here, and only root can start one: start it and run this again")
    home = paths.home() / "docker"
    short = _sockets()
    short.mkdir(parents=True, exist_ok=True)
    log = home / "dockerd.log"
    libc = ctypes.CDLL(None)
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [
                *("dockerd", "--host", f"unix://{short}/docker.sock", "--exec-root", f"{short}/exec"),
                *("--pidfile", f"{short}/pid", "--data-root", str(home / "data")),
                *("--userland-proxy-path", str(folder / "usr/sbin/docker-proxy")),
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # It ends with these tests, however they end.
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0),  # noqa: PLW1509  # one call
        )
    docker = Docker(environment | {"DOCKER_HOST": f"unix://{short}/docker.sock"}, daemon)
    deadline = time.monotonic() + START_SECONDS
    while docker("info", check=False).returncode != 0:
        if daemon.poll() is not None or time.monotonic() > deadline:
            docker.stop()
            raise RuntimeError(f"dockerd did not start:\n{log.read_text()[-3000:]}")
        time.sleep(0.2)
    # Of a run that was killed: their restart policy has just started them again.
    left = docker("ps", "--all", "--quiet").stdout.split()
    if left:
        docker("rm", "--force", "--volumes", *left)
    return docker


def require_room(needed=NEEDED_BYTES, folder=None):
    """Fail now rather than in the middle of a build when the disk is too small."""
    folder = folder or paths.home()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise RuntimeError(f"{free / 1e9:.0f} GB free in {folder}, {needed / 1e9:.0f} GB needed for the images")
