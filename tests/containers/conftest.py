"""A Docker engine, the images built on it, and what they are built with."""

import base_image
import docker_engine
import pytest


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
