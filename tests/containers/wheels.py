"""The wheels' layers, made a second time from nothing: each file is the same.

Not among the default tests (`scripts/test containers-wheels`): it unpacks 7 GB once more.
"""

import json
import time

import docker_engine
import images

from firstword import paths

NEEDED_BYTES = 30_000_000_000
AGAIN = "firstword-engine:wheels-again"
MANIFESTS = """
import json, pathlib
print(json.dumps({file.name: file.read_text() for file in pathlib.Path("/opt/firstword").glob("wheels-*")}))
"""


def test_each_file_of_the_wheels_is_the_same_again(docker, base, built, figures):
    docker_engine.require_room(NEEDED_BYTES)
    started = time.monotonic()
    fresh = [word for stage in ("wheels-common", "wheels-cpu") for word in ("--no-cache-filter", stage)]
    docker(
        *("buildx", "build", "--provenance=false", *fresh, "--file", "docker/engine.Dockerfile"),
        *("--target", "wheels-cpu", "--build-arg", f"BASE_IMAGE={base}", "--tag", AGAIN),
        *("--secret", f"id=ca_bundle,src={images.certificates()}", "."),
        cwd=paths.root(),
        seconds=1800,
    )
    figures["build the wheels' layers again, s"] = round(time.monotonic() - started)
    try:
        first, second = (told(docker, image) for image in ("firstword-engine:cpu", AGAIN))
        assert set(first) == {"wheels-common.sha256", "wheels-cpu.sha256"} == set(second)
        differing = [line for name in first for line in {*first[name].splitlines()} ^ {*second[name].splitlines()}]
        assert differing == []
    finally:
        docker("image", "rm", AGAIN)
        if docker.started:
            docker("builder", "prune", "--force")


def told(docker, image):
    return json.loads(docker("run", "--rm", "--entrypoint", "python", image, "-c", MANIFESTS).stdout)
