"""Keep what users said out of the engine's log.

vLLM-Omni logs the first 50 characters of every speech request
(``entrypoints/openai/serving_speech.py:3296``, ``text=%r``). vLLM's logging setting
(``VLLM_LOGGING_CONFIG_PATH``, here ``logging.json``) lets a filter replace them without a patch. The same
file is uvicorn's configuration: it names every request but the health checks that come every few seconds.
Imported by every engine process at start: standard library only.
"""

import logging
import re

_CONVERSION = re.compile(r"%(?:\([^)]*\))?[#0\- +]*\d*(?:\.\d+)?([a-zA-Z%])")
_BODIES_COME_FROM = "vllm_omni.entrypoints.openai"


class WithoutBodies(logging.Filter):
    """Replace each string that an API module logs with ``%r`` by its length; nothing else is changed."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record in place; never drop it."""
        if record.name.startswith(_BODIES_COME_FROM) and isinstance(record.args, tuple):
            kinds = [kind for kind in _CONVERSION.findall(str(record.msg)) if kind != "%"]
            record.args = tuple(
                Redacted(value) if kind == "r" and isinstance(value, str) else value
                for kind, value in zip(kinds, record.args, strict=False)
            )
        return True


class Redacted(str):
    """A string that shows only how long it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} characters>"
