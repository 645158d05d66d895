"""A Docker engine, the images built on it, and what was measured on the way: told, never asserted."""

import json

import base_image
import docker_engine
import images
import pytest
from breaking import Breaking
from rehearsing import rehearse
from stack import Stack

from firstword import paths

FIGURES = {}
# First what is quick, then the one stack: whole, broken, stopped. What stands alone runs while the broken one mends.
ORDER = (
    "test_compose",
    "test_images",
    "test_stack",
    "test_clients",
    "test_up",
    *(MEANWHILE := ("test_lacking", "test_keys", "test_confined")),
    "test_breakages",
)


def pytest_collection_modifyitems(items):
    order = {name: place for place, name in enumerate((*ORDER, "test_stopping"))}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))
    if any("breaking" in item.fixturenames for item in items):
        for item in items:
            if item.path.stem in MEANWHILE and "breaking" not in item.fixturenames:
                item.fixturenames.append("breaking")


@pytest.fixture(scope="session")
def figures():
    """What was measured: printed at the end and kept in the reports."""
    return FIGURES


@pytest.fixture(scope="session")
def docker():
    """A Docker engine with room for the images; one that was started here is ended at the end."""
    try:
        docker_engine.require_room()
        found = docker_engine.get()
        docker_engine.require_room(folder=found.root())
    except RuntimeError as error:
        # One line, not one failure for each test.
        pytest.exit(f"the container tests cannot run here: {error}", returncode=pytest.ExitCode.INTERNAL_ERROR)
    yield found
    found.stop()


@pytest.fixture(scope="session")
def base(docker):
    """The name of the image that the Dockerfiles begin with."""
    return base_image.get(docker)


@pytest.fixture(scope="session")
def rehearsal(docker, base, built, figures, tmp_path_factory):
    """The GPU host's script from build to smoke, as a user runs it; its stack is left running.

    Yields:
        The stack, the report, and the report's folder.
    """
    stack = Stack(docker, "firstword-test")
    out = tmp_path_factory.mktemp("gpu-smoke")
    try:
        settings = {"BASE_IMAGE": base, "CA_BUNDLE": images.certificates()}
        code, said, report = rehearse(docker, stack, out, "--keep", **settings)
        assert code == 0, said[-6000:]
        figures |= {f"rehearsal of the GPU host: {step}, s": round(took) for step, took in report["seconds"].items()}
        yield stack, report, out
    finally:
        stack.down()


@pytest.fixture(scope="session")
def stack(rehearsal):
    """The stack as it comes from one command; several modules use it, one after another."""
    return rehearsal[0]


@pytest.fixture(scope="session")
def breaking(stack):
    """Both engines of the stack broken at once, each in its way, and what becomes of them."""
    with Breaking(stack) as breaking:
        yield breaking


@pytest.fixture(scope="session")
def built(docker, base, figures):
    """The compose project that the images were built with."""
    builder = images.build(docker, base, figures)
    for image in ("firstword-engine:cpu", "firstword-gateway", "firstword-smoke", base):
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
