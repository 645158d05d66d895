"""The locks: they say what their .in files ask for, carry hashes, and no pin stands twice."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from firstword.native.locking import pins

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker/requirements"
SETTINGS = tomllib.loads((FOLDER / "locks.toml").read_text())


def asked(name: str, *, follow: bool = True) -> list[Requirement]:
    found = []
    for line in (FOLDER / name).read_text().splitlines():
        words = line.partition("#")[0].strip()
        if words.startswith("-r "):
            found += asked(words[3:].strip()) if follow else []
        elif words and not words.startswith("-c "):
            found.append(Requirement(words))
    return found


@pytest.mark.parametrize("name", SETTINGS)
def test_each_requirement_is_locked_at_a_version_it_allows(name):
    locked = {canonicalize_name(k): v for k, v in pins(FOLDER / f"{name}.txt").items()}
    requirements = asked(f"{name}.in")
    assert requirements
    for requirement in requirements:
        assert locked.get(canonicalize_name(requirement.name)) in requirement.specifier, requirement


@pytest.mark.parametrize("name", SETTINGS)
def test_every_locked_package_carries_hashes(name):
    text = (FOLDER / f"{name}.txt").read_text()
    for block in re.split(r"\n(?=[a-z0-9])", text):
        if "==" in block.splitlines()[0]:
            assert "--hash=sha256:" in block, block.splitlines()[0]


@pytest.mark.parametrize("name", SETTINGS)
def test_no_lock_names_an_index_or_a_machine(name):
    text = (FOLDER / f"{name}.txt").read_text()
    assert not re.search(r"https?://|file:|--index|--find-links|/tmp/|/home/|/root/", text)


def test_each_lock_has_its_in_file_and_each_in_file_its_lock():
    ins = {file.stem for file in FOLDER.glob("*.in")} - {"engine-common", "engine-cpu.overrides"}
    assert ins == {file.stem for file in FOLDER.glob("*.txt")} == set(SETTINGS)


def test_no_pin_stands_twice():
    pinned: dict[str, list[str]] = {}
    for file in FOLDER.glob("*.in"):
        for requirement in asked(file.name, follow=False):
            if requirement.specifier:
                pinned.setdefault(canonicalize_name(requirement.name), []).append(file.name)
    # The build of a source distribution has an environment of its own, with its own setuptools.
    assert {name: files for name, files in pinned.items() if len(files) > 1} == {}


def test_the_cpu_lock_follows_the_cuda_lock():
    cuda, cpu = pins(FOLDER / "engine-cuda.txt"), pins(FOLDER / "engine-cpu.txt")
    differing = {name for name in cuda.keys() & cpu.keys() if cuda[name] != cpu[name]}
    assert differing == set(SETTINGS["engine-cpu"]["own-versions"])
    assert cpu["torch"] == cuda["torch"]


def test_the_dev_lock_agrees_with_the_engine_it_sits_on():
    dev, cpu = pins(FOLDER / "dev.txt"), pins(FOLDER / "engine-cpu.txt")
    assert {name for name in dev.keys() & cpu.keys() if dev[name] != cpu[name]} == set()


def test_undeclared_dependencies_stand_on_lines_of_their_own_with_their_reason():
    lines = (FOLDER / "engine-common.in").read_text().splitlines()
    for name in ("librosa", "soundfile", "s3tokenizer", "hyperpyyaml", "step-audio2"):
        (number,) = [i for i, line in enumerate(lines) if line.startswith(f"{name}==")]
        assert lines[number - 1].startswith("#"), name


def test_the_build_backend_is_the_pinned_installer():
    version = pins(FOLDER / "uv.txt")["uv"]
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert version in Requirement(requires[0]).specifier


def test_versions_of_the_engine_are_written_down_only_in_the_requirements():
    version = pins(FOLDER / "engine-cpu.txt")["vllm-omni"]
    elsewhere = []
    for folder in ("src", "scripts", "configs"):
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and file.suffix in {".py", ".yaml", ".toml", ".lock", ""}:
                text = file.read_text(errors="replace")
                # Prose may say "0.26.0 does X"; a comparison or a pin may not.
                elsewhere += [f"{file}" for _ in re.findall(rf"==\s*[\"']?{re.escape(version)}", text)]
    assert elsewhere == []


def test_the_javascript_lock_has_its_pins_by_hash_and_names_no_registry():
    folder = ROOT / "tests/gateway/clients/javascript"
    asked = json.loads((folder / "package.json").read_text())["dependencies"]
    text = (folder / "package-lock.json").read_text()
    packages = {name: package for name, package in json.loads(text)["packages"].items() if name}
    assert {f"node_modules/{name}" for name in asked} <= set(packages)
    for name, version in asked.items():
        assert packages[f"node_modules/{name}"]["version"] == version
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert '"resolved"' not in text
    assert "omit-lockfile-registry-resolved=true" in (folder / ".npmrc").read_text()
