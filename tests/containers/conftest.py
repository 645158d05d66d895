"""A Docker engine, the images built on it, and what was measured on the way: told, never asserted."""

import json

import base_image
import docker_engine
import images
import pytest

from firstword import paths

FIGURES = {}


@pytest.fixture(scope="session")
def figures():
    """What was measured: printed at the end and kept in the reports."""
    return FIGURES


@pytest.fixture(scope="session")
def docker():
    """A Docker engine with room for the images; one that was started here is ended at the end."""
    docker_engine.require_room()
    found = docker_engine.get()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def base(docker):
    """The name of the image that the Dockerfiles begin with."""
    return base_image.get(docker)


@pytest.fixture(scope="session")
def built(docker, base, figures):
    """The compose project that the images were built with."""
    builder = images.build(docker, base, figures)
    for image in ("firstword-engine:cpu", "firstword-gateway", base):
        figures[f"{image}, MB"] = images.size(docker, image)
    return builder


def pytest_terminal_summary(terminalreporter):
    if FIGURES:
        terminalreporter.section("measured")
        for name, value in FIGURES.items():
            terminalreporter.line(f"{name}: {value}")
        reports = paths.home() / "reports"
        reports.mkdir(parents=True, exist_ok=True)
        (reports / "containers.json").write_text(json.dumps(FIGURES, indent=1) + "\n")
