"""Build the images through compose, as a user does, and tell how long it took and how large they are."""

import os
import time

import docker_engine
from stack import Stack

from firstword import paths

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
BUILD_SECONDS = 900


def build(docker, base, figures):
    """Build the engine for the CPU and the gateway."""
    settings = {"BASE_IMAGE": base, "CA_BUNDLE": os.environ.get("SSL_CERT_FILE") or CERTIFICATES}
    builder = Stack(docker, "firstword-build", **settings)
    reports = paths.home() / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    for service in ("qwen3-tts", "gateway", "smoke"):
        docker_engine.require_room()
        started = time.monotonic()
        done = builder.compose("build", "--progress", "plain", service, seconds=BUILD_SECONDS)
        # How long each step took.
        (reports / f"build-{service}.log").write_text(done.stdout + done.stderr)
        figures[f"build {service}, s"] = round(time.monotonic() - started)
    return builder


def size(docker, image):
    """Return the image's size in MB, and that of what it adds to its base."""
    own = int(docker("image", "inspect", "--format", "{{.Size}}", image).stdout)
    return round(own / 1e6)
