"""The bills of materials that the images carry: valid CycloneDX, and exactly what the locks hold."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).parents[2]
LOCKS = ("gateway", "smoke", "engine-cpu", "engine-cuda")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("sbom")
    locks = [str(ROOT / f"docker/requirements/{name}.txt") for name in LOCKS]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        [ROOT / "docker/sbom/write-sboms", ROOT / "pyproject.toml", out, *locks],
        env=os.environ | {"PATH": path},
        check=True,
    )
    return out


def held(lock):
    """Return what a lock holds: (name, version) -> hashes."""
    text = (ROOT / f"docker/requirements/{lock}.txt").read_text()
    blocks = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)(.*(?:\n[ \t]+.*)*)", text, re.MULTILINE)
    return {(name, version): set(re.findall(r"sha256:([0-9a-f]{64})", rest)) for name, version, rest in blocks}


@pytest.mark.parametrize("lock", LOCKS)
def test_it_is_valid_and_holds_what_the_lock_does(folder, lock):
    text = (folder / f"{lock}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    told = json.loads(text)
    assert (told["bomFormat"], told["metadata"]["component"]["name"]) == ("CycloneDX", "firstword")
    listed = {}
    for one in told["components"]:
        references = one["externalReferences"]
        hashes = {h["content"] for ref in references for h in ref.get("hashes", ()) if h["alg"] == "SHA-256"}
        listed[one["name"], one["version"]] = hashes
        assert one["purl"].lower() == f"pkg:pypi/{one['name']}@{one['version']}".lower().replace("_", "-")
    assert listed == held(lock)
    assert all(listed.values())


def test_a_broken_one_would_be_told(folder):
    told = json.loads((folder / "gateway.cdx.json").read_text())
    told["components"][0]["type"] = "no such type"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(told)) is not None
