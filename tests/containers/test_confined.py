"""The strictest surroundings: any user, no capability, a read-only root, no way out."""

import pytest
from stack import DEFAULT_ROUTE, OFFLINE, Stack

USER = "import os; print(os.getuid(), os.getgid(), open('/proc/self/status').read().split('CapBnd:')[1].split()[0])"
WRITE = """
try:
    open("/opt/firstword/x", "w")
except OSError as error:
    print(error.strerror)
"""


@pytest.fixture(scope="module")
def confined(docker, built, figures):
    stack = Stack(docker, "firstword-confined", OFFLINE, FIRSTWORD_USER="12345:0")
    try:
        figures["confined: up to ready, one engine, s"] = round(stack.up("--no-deps", "qwen3-tts"))
        yield stack
    finally:
        stack.down()


def test_it_is_ready_all_the_same(confined):
    assert confined.inspect("qwen3-tts")["State"]["Health"]["Status"] == "healthy"
    assert confined.python("qwen3-tts", USER) == "12345 0 0000000000000000"
    assert confined.python("qwen3-tts", WRITE) == "Read-only file system"
    assert confined.python("qwen3-tts", DEFAULT_ROUTE) == "False"
