"""The gateway in its own environment, before both real engines; all tests share the three processes."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import openai
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

from engines import Engine  # the engine tests' own way to start one
from gateway_process import KEY, GatewayProcess

SPEECH = ("qwen3-tts-customvoice-synthetic", "cpu")
RECOGNITION = ("step-audio-2-mini-synthetic", "speech-cpu")
# Before the engines are up; then with them; at last what ends one.
ORDER = (
    "test_environment",
    "test_starting",
    "test_openai_python",
    "test_openai_python_async",
    "test_openai_javascript",
    "test_sound",
    "test_passing_through",
    "test_sessions",
    "test_openapi",
    "test_frozen",
    "test_replicas",
    "test_ending",
    "test_own_voices",
)


def pytest_collection_modifyitems(config, items):
    if config.getoption("--gateway-url"):
        items[:] = [item for item in items if item.get_closest_marker("own_gateway") is None]
    items.sort(key=lambda item: ORDER.index(item.path.stem))


class Stack:
    """Both engines, on their way up from the start, and the gateway before them."""

    def __init__(self, run_dir):
        self.speech, self.recognition = Engine(*SPEECH, run_dir), Engine(*RECOGNITION, run_dir)
        self.engines = (self.speech, self.recognition)
        self._pool = ThreadPoolExecutor(len(self.engines))
        self._starts = [self._pool.submit(engine.start) for engine in self.engines]
        self.gateway = GatewayProcess(run_dir, self.engines)

    def up(self):
        """Return once each engine has started; its failure is raised."""
        for start in self._starts:
            start.result()

    def stop(self):
        self.gateway.stop()
        self._pool.shutdown()
        for engine in self.engines:
            engine.stop()


@pytest.fixture(scope="session")
def starting(tmp_path_factory):
    stack = Stack(tmp_path_factory.mktemp("run"))
    try:
        stack.gateway.start()
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="session")
def stack(starting):
    """The stack once `/ready` says so."""
    starting.up()
    starting.gateway.wait(200)
    return starting


@pytest.fixture(scope="session")
def gateway(request):
    """The gateway of the stack, or the one that ``--gateway-url`` names: nothing but its address is known then."""
    url = request.config.getoption("--gateway-url")
    return SimpleNamespace(url=url) if url else request.getfixturevalue("stack").gateway


@pytest.fixture(scope="session")
def sdk(gateway):
    """OpenAI's SDK: only the address and the key are ours."""
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=120) as client:
        yield client


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    stack = getattr(item, "funcargs", {}).get("starting")
    if report.failed and stack is not None:
        report.sections.append(("the gateway's log", stack.gateway.tail()))
        report.sections.extend((f"the end of {engine.log}", engine.tail(20)) for engine in stack.engines)
    return report
