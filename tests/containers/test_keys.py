"""Keys from a file on the host: asked for on the published address, and shown nowhere."""

import json
import os

import httpx
import pytest
from stack import Stack, until

KEY = "sk-of-a-file-of-the-tests"


@pytest.fixture(scope="module")
def keyed(docker, built, tmp_path_factory):
    """A gateway alone: its keys need no engine."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"# for one client\n{KEY}\n")
    os.chown(keys, -1, 0)
    keys.chmod(0o640)
    stack = Stack(docker, "firstword-keys", FIRSTWORD_API_KEYS_FILE=str(keys))
    try:
        stack.compose("up", "--detach", "--no-deps", "gateway", seconds=120)
        until(lambda: stack.status("/health") == 200, 60, "the gateway lives")
        yield stack
    finally:
        stack.down()


@pytest.mark.parametrize(("key", "status"), [(KEY, 200), (KEY[:-1], 401), (None, 401)])
def test_they_are_asked_for(keyed, key, status):
    headers = {"authorization": f"Bearer {key}"} if key else {}
    assert httpx.get(f"{keyed.url}/v1/audio/voices", headers=headers, trust_env=False).status_code == status


def test_they_are_shown_nowhere(keyed):
    assert KEY not in json.dumps(keyed.inspect("gateway"))
    assert KEY not in keyed.logs("gateway")
