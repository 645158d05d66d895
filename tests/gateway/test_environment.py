"""The gateway's own lock suffices: every module of it imports, and nothing of an engine's is there."""

import subprocess

from firstword.native import environments

IMPORT_ALL = """
import importlib, pkgutil, sys
import firstword.acceptance, firstword.gateway
for package in (firstword.acceptance, firstword.gateway):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
print(*sorted(name for name in ("torch", "vllm", "vllm_omni", "transformers") if importlib.util.find_spec(name)))
"""


def test_every_module_imports_in_it_and_nothing_heavy_is_there():
    python = environments.gateway() / "bin/python"
    done = subprocess.run([str(python), "-I", "-c", IMPORT_ALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
