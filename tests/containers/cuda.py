"""The GPU image, on a machine without a GPU: it is built, and its last step imports what serving will need.

Not among the default tests (`scripts/test containers-cuda`): it fetches and unpacks 10 GB more than the rest.
"""

import time

import docker_engine
import images

from firstword import paths

NEEDED_BYTES = 40_000_000_000


def test_it_is_built_and_its_imports_work(docker, base, figures):
    docker_engine.require_room(NEEDED_BYTES)
    started = time.monotonic()
    done = docker(
        *("buildx", "build", "--progress", "plain", "--file", "docker/engine.Dockerfile", "--target", "cuda"),
        *("--build-arg", f"BASE_IMAGE={base}", "--secret", f"id=ca_bundle,src={images.certificates()}"),
        # Nothing is kept but the cache: the image would take as much again.
        *("--output", "type=cacheonly", "."),
        cwd=paths.root(),
        seconds=1800,
    )
    figures["build cuda, s"] = round(time.monotonic() - started)
    figures["disk after it"] = docker("system", "df", "--format", "{{.Type}}: {{.Size}}").stdout.split("\n")
    assert "firstword preflight --device cuda --deep" in done.stderr
    if docker.started:
        docker("builder", "prune", "--all", "--force")
