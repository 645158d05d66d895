"""A command whose Python package is missing says which, in one line."""

import argparse
import json
import subprocess
import sys

import pytest

from firstword import cli
from firstword.engine.config import load
from firstword.engine.preflight import command
from firstword.errors import Exit

RUN = "import sys; sys.modules[sys.argv[1]] = None; from firstword.cli import main; sys.exit(main(sys.argv[2:]))"


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("unidiff", ["patches", "list"]),
        ("httpx", ["probe", "http://127.0.0.1:9"]),
    ],
)
def test_a_missing_package_is_named(module, words):
    ended = subprocess.run(
        [sys.executable, "-c", RUN, module, *words, "--json"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == Exit.ENVIRONMENT
    assert f"has no module {module}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert json.loads(ended.stdout)["error"]["kind"] == "environment"


def test_a_missing_module_of_our_own_is_a_defect(monkeypatch):
    monkeypatch.setitem(cli.COMMANDS, "bench", ("firstword.nowhere", "measure"))
    with pytest.raises(ModuleNotFoundError):
        cli.main(["bench"])


@pytest.mark.parametrize("module", ["yaml", "jsonschema"])
def test_preflight_goes_on_to_name_what_reads_its_own_config(monkeypatch, module):
    wanted = load("qwen3-tts", "cpu").path
    monkeypatch.setitem(sys.modules, module, None)
    assert command._deploy_config("qwen3-tts", argparse.Namespace(shape="cpu", device=None)) == wanted
