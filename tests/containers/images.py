"""Build the images through compose, as a user does, and tell how long it took and how large they are."""

import os
import time
from pathlib import Path

from stack import Stack

from firstword import paths
from firstword.native import labels

BUILD_SECONDS = 900


def build(docker, base, figures):
    """Build the engine for the CPU and the gateway."""
    settings = {"BASE_IMAGE": base, "CA_BUNDLE": certificates()}
    builder = Stack(docker, "firstword-build", **settings, **labels.build_arguments())
    reports = paths.home() / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    for service in ("qwen3-tts", "gateway", "smoke"):
        started = time.monotonic()
        done = builder.compose("build", "--progress", "plain", service, seconds=BUILD_SECONDS)
        # How long each step took.
        (reports / f"build-{service}.log").write_text(done.stdout + done.stderr)
        figures[f"build {service}, s"] = round(time.monotonic() - started)
    return builder


def certificates():
    """Return a file with the certificate authorities that this machine trusts; an empty one when it has none."""
    usual = Path("/etc/ssl/certs/ca-certificates.crt")
    return os.environ.get("SSL_CERT_FILE") or str(usual if usual.exists() else os.devnull)


def size(docker, image):
    """Return the image's size in MB."""
    own = int(docker("image", "inspect", "--format", "{{.Size}}", image).stdout)
    return round(own / 1e6)
