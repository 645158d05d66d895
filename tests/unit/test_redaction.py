"""What users said stays out of the engine's log."""

import json
import logging
import logging.config
from pathlib import Path

import pytest

import firstword.engine
from firstword.engine.redaction import WithoutBodies

CONFIG = Path(firstword.engine.__file__).with_name("logging.json")


@pytest.mark.parametrize("name", ["vllm_omni.entrypoints.openai.serving_speech"])
def test_strings_logged_by_an_api_module_are_replaced_by_their_length(name):
    record = logging.LogRecord(name, 20, "f", 1, "request %s: text=%r, model=%s", ("id-1", "my secret", "m"), None)
    assert WithoutBodies().filter(record)
    assert record.getMessage() == "request id-1: text=<9 characters>, model=m"


def test_other_modules_and_other_arguments_are_left_alone():
    record = logging.LogRecord("vllm_omni.engine", 20, "f", 1, "%s=%r", ("a", "b"), None)
    assert WithoutBodies().filter(record)
    assert record.getMessage() == "a='b'"
    record = logging.LogRecord("vllm_omni.entrypoints.openai.x", 20, "f", 1, "100%% of %r and %d", ([1], 2), None)
    assert WithoutBodies().filter(record)
    assert record.getMessage() == "100% of [1] and 2"


def test_the_logging_config_applies_the_filter(capfd):
    logger = logging.getLogger("vllm")
    before = (logger.handlers[:], logger.level, logger.propagate)
    try:
        logging.config.dictConfig(json.loads(CONFIG.read_text()))
        (handler,) = logger.handlers
        record = logging.LogRecord("vllm_omni.entrypoints.openai.x", 20, "f", 1, "text=%r", ("secret",), None)
        assert handler.filter(record)
        assert "secret" not in handler.format(record)
    finally:
        logger.handlers, logger.level, logger.propagate = before[0], before[1], before[2]


def test_the_line_upstream_logs_is_the_kind_that_is_caught():
    """Upstream's message is still the one the filter was written for: a change there must be looked at."""
    import importlib.util

    root = Path(importlib.util.find_spec("vllm_omni").origin).parent
    text = (root / "entrypoints/openai/serving_speech.py").read_text()
    assert '"TTS speech request %s: text=%r, model=%s"' in text
