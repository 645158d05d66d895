"""OpenAI's SDKs for Python and JavaScript, on the published address of the stack in containers."""

import subprocess
import sys

from firstword import paths


def test_openais_sdks_as_with_the_engines_alone(stack, tmp_path):
    """The gateway's own tests of both, each against this address: every one of them runs."""
    report = tmp_path / "clients.xml"
    options = ("--require-all", "--gateway-url", stack.url, "--junitxml", str(report))
    command = [sys.executable, "-m", "pytest", "tests/gateway/clients", *options]
    done = subprocess.run(command, cwd=paths.root(), capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
