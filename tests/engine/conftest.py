"""Real engines, one at a time, in an order that starts each as seldom as can be."""

import pytest
from engines import Engines

ORDER = (
    ("qwen3-tts-customvoice-synthetic", "cpu"),
    ("qwen3-tts-customvoice-synthetic", "four-blocks"),
    ("qwen3-tts-voicedesign-synthetic", "cpu"),
    ("qwen3-tts-base-synthetic", "cpu"),
    ("step-audio-2-mini-synthetic", "speech-cpu"),
    ("step-audio-2-mini-synthetic", "four-blocks-speech"),
    ("step-audio-2-mini-synthetic", "asr-cpu"),
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: (ORDER.index(wanted(item)), ends(item)) if wanted(item) else (-1, False))


def wanted(item):
    """Return model and shape of the engine that a test is marked with."""
    marker = item.get_closest_marker("engine")
    return marker.args if marker else None


def ends(item):
    """Return whether a test ends its engine, and so comes last."""
    return item.get_closest_marker("engine").kwargs.get("ends", False)


@pytest.fixture(scope="session")
def engines(tmp_path_factory):
    engines = Engines(tmp_path_factory.mktemp("run"))
    yield engines
    engines.stop()


@pytest.fixture(scope="session")
def said_before():
    """What engines of the same model have said, by model."""
    return {}


@pytest.fixture
def engine(engines, request):
    """The engine that the test is marked with, started if need be; one that died is started anew."""
    return engines.serve(*wanted(request.node))


@pytest.fixture
def client(engine):
    with engine.client() as client:
        yield client


@pytest.fixture
def same_processes(engine):
    """No process of the engine ends or begins while the test runs."""
    before = engine.processes()
    yield
    assert engine.processes() == before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and "engine" in getattr(item, "funcargs", {}):
        engine = item.funcargs["engine"]
        report.sections.append((f"the end of {engine.log}", engine.tail()))
    return report
