"""The stack as its users start it: docker compose and nothing else."""

import json
import socket
import time
import urllib.error
import urllib.request

import pytest

from firstword import paths

# Minutes on a machine that does nothing else.
UP_SECONDS = 600
SPEECH = "qwen3-tts-customvoice-synthetic"
RECOGNITION = "step-audio-2-mini-synthetic"
CPU = ("compose.yaml", "compose.cpu.yaml")
OFFLINE = (*CPU, "compose.offline.yaml")
# Whether a container has a way out.
DEFAULT_ROUTE = "print(any(l.split()[1] == '00000000' for l in open('/proc/net/route').readlines()[1:]))"


class Stack:
    """One compose project on a port of its own.

    Args:
        docker: `docker_engine.Docker`.
        name: The project's name.
        files: Compose files in the checkout.
        settings: What its .env would hold, beside the port.
    """

    def __init__(self, docker, name, files=CPU, **settings):
        self._docker, self.name = docker, name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._settings = {"FIRSTWORD_PORT": str(self.port)} | settings
        # Nobody's .env: what is tested are the defaults.
        self._words = ["compose", "--project-directory", str(paths.root()), "--env-file", "/dev/null"]
        self._words += ["--project-name", name, *(word for file in files for word in ("--file", file))]

    def compose(self, *arguments, **options):
        return self._docker(*self._words, *arguments, env=self._settings, cwd=paths.root(), **options)

    def up(self, *arguments, **options):
        """Bring it up, wait until it is ready, and return how many seconds that took."""
        self.down()  # of a run that was killed
        started = time.monotonic()
        try:
            # A stage that dies again and again is started again and again: without a limit this would wait for it.
            self.compose(
                "up", "--wait", "--wait-timeout", str(UP_SECONDS), *arguments, seconds=UP_SECONDS + 60, **options
            )
        except BaseException as error:
            error.add_note(self.logs())
            raise
        return time.monotonic() - started

    def down(self):
        self.compose("down", "--volumes", "--remove-orphans", check=False, seconds=120)

    def logs(self, *services, tail=200):
        return self.compose("logs", "--no-color", "--tail", str(tail), *services, check=False).stdout

    def inspect(self, service):
        """Return what the engine knows of a service's container."""
        container = self.compose("ps", "--all", "--quiet", service).stdout.strip()
        return json.loads(self._docker("inspect", container).stdout)[0]

    def exit_codes(self, service):
        """Return what a service's container has ended with so far; its state forgets it when it is started again."""
        container = self.inspect(service)
        filters = ("--filter", f"container={container['Id']}", "--filter", "event=die")
        until = ("--since", container["Created"], "--until", str(int(time.time()) + 1))
        told = self._docker("events", *until, *filters, "--format", "{{.Actor.Attributes.exitCode}}").stdout
        return [int(code) for code in told.split()]

    def python(self, service, program, *arguments):
        """Return what a Python program prints inside a service's container."""
        return self.compose("exec", "-T", service, "python", "-c", program, *arguments, seconds=60).stdout.strip()

    def status(self, path):
        """Return the status of a GET on the published address, 0 when nothing answers."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def left(self):
        """Return what the engine still holds of this project."""
        label = f"label=com.docker.compose.project={self.name}"
        kinds = (("ps", "--all"), ("volume", "ls"), ("network", "ls"))
        return [line for kind in kinds for line in self._docker(*kind, "--quiet", "--filter", label).stdout.split()]


def until(found, seconds, what):
    """Wait until ``found()`` is true."""
    deadline = time.monotonic() + seconds
    while not found():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {what}")
        time.sleep(0.5)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
