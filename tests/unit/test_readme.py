"""What the README tells people to paste is what there is."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from firstword import cli
from firstword.native import environments

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def pasted(heading: str) -> list[list[str]]:
    """Return the commands of the first shell block under a heading, split into words."""
    block = README.split(f"## {heading}\n", 1)[1].split("```sh\n", 1)[1].split("```", 1)[0]
    return [shlex.split(line) for line in block.replace("\\\n", " ").splitlines() if line]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_a_link_leads_somewhere(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("name", re.findall(r"^\| `firstword (\w+)", README, re.MULTILINE))
def test_a_command_of_the_table_exists(name, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    assert name in capsys.readouterr().out


def test_the_scripts_it_names_exist():
    named = set(re.findall(r"\bscripts/([\w-]+)", README))
    assert {"up", "test", "gpu-smoke"} <= named
    assert all((ROOT / "scripts" / name).is_file() for name in named)


def test_the_gpu_environment_resolves_from_its_lock(tmp_path):
    """The lines as they stand, in an environment elsewhere; the installer stops before it unpacks 8 GB."""
    venv, install, editable, patches, serve = pasted("Real models")
    assert (patches, serve[:2]) == (["engine/bin/firstword", "patches", "apply"], ["engine/bin/firstword", "serve"])
    for command in (venv, [*install, "--dry-run"], [*editable, "--dry-run"]):
        assert command[0] == "uv"
        there = [str(tmp_path / "engine") if word == "engine" else word for word in command[1:]]
        there = [sys.executable if word == "3.12" else word for word in there]
        done = subprocess.run([str(environments.uv()), *there], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        if command[:3] == install[:3] and "-r" in command:
            planned = set(re.findall(r"^ \+ ([a-z0-9.-]+)==", done.stderr, re.MULTILINE))
            locked = set(
                re.findall(r"^([a-z0-9.-]+)==", (ROOT / command[-2]).read_text(encoding="utf-8"), re.MULTILINE)
            )
            assert planned == locked
