"""Options and markers for every test; ``--require-all`` makes a test that was not run a failure."""

import signal
from collections.abc import Generator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-all",
        action="store_true",
        help="fail when a collected test was skipped, expected to fail, deselected or not run at all",
    )
    parser.addoption(
        "--disconnects",
        type=int,
        default=50,
        help="clients that leave in the middle, per engine (default: %(default)s; 1000 by hand takes minutes)",
    )
    parser.addoption("--gateway-url", help="try the clients on a gateway that runs already, without keys")


def pytest_configure(config: pytest.Config) -> None:
    # A shell's background job is born deaf to it, and so would be all that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "engine(model, shape): a test on a real engine that serves this model")
    config.addinivalue_line(
        "markers", "own_gateway: a test of what only a gateway started here shows: its keys, its log"
    )
    # pytest-xdist's workers each run a part; what all of them ran is known to their controller alone.
    if config.getoption("--require-all") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(RequireAll(), "require-all")


class RequireAll:
    """Count what was collected against what really ran to an end."""

    def __init__(self) -> None:
        self.collected: set[str] = set()
        self.ran: set[str] = set()
        self.missing: dict[str, str] = {}

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        for item in items:
            self.missing[item.nodeid] = "deselected"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.missing[report.nodeid] = "skipped at collection"

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected = {item.nodeid for item in session.items}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        del node
        self.collected |= set(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "wasxfail"):
            self.missing[report.nodeid] = "expected to fail"
        elif report.skipped:
            self.missing[report.nodeid] = "skipped"
        elif report.when == "call":
            self.ran.add(report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
        for nodeid in self.collected - self.ran:
            self.missing.setdefault(nodeid, "not run")
        if session.exitstatus == pytest.ExitCode.OK and (self.missing or not self.ran):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.missing:
            terminalreporter.section("required, but not run", red=True, bold=True)
            for nodeid, reason in sorted(self.missing.items()):
                terminalreporter.line(f"{reason}: {nodeid}")
        elif not self.ran:
            terminalreporter.section("required, but no test ran", red=True, bold=True)
