"""`scripts/gpu-check` as it is called: its rehearsal where PyTorch and NumPy are alone, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from firstword import paths
from firstword.bench.gpu_check import catalogue, parts, sources
from firstword.errors import Exit
from firstword.patching import load_series
from firstword.patching.environment import find_site_packages

# Put first on Python's path: what a bare machine has can be imported, nothing else.
BARE = """\
import sys
from importlib.machinery import PathFinder

# PyTorch and what it needs itself.
THERE = {"torch", "torchgen", "functorch", "numpy", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec"}
THERE |= {"filelock", "typing_extensions", "setuptools", "nvidia", "firstword", *sys.stdlib_module_names}


class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        root = name.partition(".")[0]
        there = root in THERE or root.startswith("_sysconfigdata")
        return super().find_spec(name, path, target) if there else None


sys.meta_path = [Bare if finder is PathFinder else finder for finder in sys.meta_path]
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle of the environment that these tests run in."""
    patches = paths.root() / "patches"
    to = tmp_path_factory.mktemp("bundle") / "bundle.zip"
    sources.make(to, find_site_packages(load_series(patches).versions), patches)
    return to


@pytest.fixture
def bare(tmp_path):
    """Runs Python where nothing but PyTorch and NumPy can be imported."""
    folder = tmp_path / "bare"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(BARE)
    path = os.pathsep.join([str(folder), str(paths.root() / "src")])

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def test_a_rehearsal_measures_all_of_it_with_pytorch_alone(bare, bundle, tmp_path):
    for name in ("vllm", "vllm_omni", "transformers", "unidiff", "scipy", "einops"):
        assert f"No module named '{name}'" in bare("-c", f"import {name}").stderr
    done = bare(
        "-m", "firstword.bench.gpu_check", "--cpu", "--json", "--bundle", str(bundle), "--out", str(tmp_path / "out")
    )
    assert done.returncode == Exit.OK, done.stderr
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "out/gpu-check.json").read_text())
    assert (report["rehearsal"], report["complete"], report["faults"]) == (True, True, [])
    rehearsed = [name for name, case in catalogue.CASES.items() if case.rehearsal is not None]
    reads = {}
    for case in report["cases"]:
        if case["name"] not in rehearsed:
            assert case["state"] == "left out"
            continue
        assert (case["state"], case["counted"]["state"]) == ("measured", "measured"), case
        assert case["equal"]
        reads[case["name"]] = [case["counted"][side]["totals"]["blocking read"] for side in sources.SIDES]
    # As docs/benchmarks/syncs.md has them for the installed classes, as far as the functions are the same.
    assert reads == {
        "hearing": [8, 1],
        "a stream of three chunks": [6, 3],
        "chunks between the stages": [0, 0],
        "inverse STFT": [1, 0],
        "vocoder": [1, 0],
        "outputs of a code2wav step": [8, 1],
        "outputs of a decode step": [3, 1],
        "a known reference": [2, 0],
        "a prompt in two pieces": [2, 0],
        "a voice's embedding": [2, 0],
        "a reference's codes": [32, 0],
    }
    tables = report["seed tables"]
    assert all(tables["equal"].values())
    assert {row["requests"]: row["waits"]["before"] for row in tables["rows"]} == {1: 1, 8: 8}
    page = (tmp_path / "out/gpu-check.md").read_text()
    assert page.startswith("**Rehearsal on the CPU: no figure of it is a GPU's.**")
    assert "| outputs of a code2wav step | yes |" in page
    assert "step-audio2/0002-flow-noise-is-a-constant: other noise" in page


def test_what_a_gpu_alone_reaches_is_reached(bundle, monkeypatch):
    """With tensors that say they are on a GPU; see `gpu_check_held`."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    settings = {
        "what": "times",
        "runs": 1,
        "seconds": 0.0,
        "device": "cuda:0",
        "sizes": "rehearsal",
        "requests": [1, 8],
        "bundles": [str(bundle)],
        "patches": str(paths.root() / "patches"),
    }
    names = ["seed tables", *(name for name, case in catalogue.CASES.items() if case.rehearsal is not None)]
    script = Path(__file__).with_name("gpu_check_held.py")
    found = parts.measure(names, parts.Job(settings, {}, 120.0, (str(script),)), parts.Deadline(300), print)
    assert {name: outcome.why for name, outcome in found.items() if outcome.state != "measured"} == {}
    tables = found.pop("seed tables").result
    assert tables["device"] == "said to be there"
    assert all("cuda_microseconds" in row and "cuda_reports" in row for row in tables["rows"])
    for name, outcome in found.items():
        assert outcome.result["equal"], name
        assert set(outcome.result["microseconds"]) == {"host", "done", "events", "queued"}


def test_the_seed_tables_command_needs_pytorch_alone(bare):
    done = bare("-m", "firstword", "bench", "seed-tables", "--runs", "1")
    assert done.returncode == Exit.OK, done.stderr
    assert "| 2048 | 256 |" in done.stdout


def test_a_budget_that_is_too_small_is_told(bare, bundle, tmp_path):
    done = bare(
        "-m", "firstword.bench.gpu_check", "--cpu", "--bundle", str(bundle), "--budget", "0.1", "--out", str(tmp_path)
    )
    assert done.returncode == Exit.NOT_READY, done.stderr
    assert "**The budget was used up before the end.**" in done.stdout
    assert "- hearing: not run: the budget was used up before it" in done.stdout
    assert not json.loads((tmp_path / "gpu-check.json").read_text())["complete"]


def test_without_a_gpu_it_names_the_rehearsal(bare, tmp_path):
    done = bare("-m", "firstword.bench.gpu_check", "--out", str(tmp_path / "out"))
    assert done.returncode == Exit.ENVIRONMENT
    assert "sees no GPU" in done.stderr
    assert "rehearse with --cpu" in done.stderr
    assert not (tmp_path / "out").exists()


def script(*arguments, **settings):
    return subprocess.run(
        [str(paths.root() / "scripts/gpu-check"), *arguments],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_script_helps_makes_a_bundle_and_refuses(tmp_path, bundle):
    mine = {"FIRSTWORD_PYTHON": sys.executable}
    told = script("--help", **mine)
    assert told.returncode == Exit.OK
    assert "scripts/gpu-check --bundle FILE" in told.stdout
    site_packages = find_site_packages(load_series(paths.root() / "patches").versions)
    made = script("--make-bundle", str(tmp_path / "b.zip"), "--site-packages", str(site_packages), **mine)
    assert made.returncode == Exit.OK, made.stderr
    assert "files as released" in made.stdout
    # A wrong bundle is told before anything is measured.
    Path(tmp_path / "c.zip").write_bytes(bundle.read_bytes()[:1000])
    refused = script("--cpu", "--json", "--bundle", str(tmp_path / "c.zip"), "--out", str(tmp_path / "out"), **mine)
    assert refused.returncode == Exit.USAGE
    assert json.loads(refused.stdout)["error"]["kind"] == "usage"
    assert script("--budget", "0", **mine).returncode == Exit.USAGE


def test_the_script_needs_a_new_python_and_the_command_pytorch(tmp_path):
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    refused = script("--cpu", FIRSTWORD_PYTHON=str(old))
    assert refused.returncode == Exit.WRONG_PYTHON
    assert "no Python 3.12 or newer" in refused.stderr
    alone = tmp_path / "alone"
    alone.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    alone.chmod(0o755)
    refused = script("--cpu", FIRSTWORD_PYTHON=str(alone))
    assert refused.returncode == Exit.ENVIRONMENT
    assert "has no torch and no numpy" in refused.stderr


def test_an_interrupt_leaves_no_worker(tmp_path):
    path = str(paths.root() / "src")
    process = subprocess.Popen(
        [sys.executable, "-m", "firstword.bench.gpu_check", "--cpu", "--out", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": path, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr.readline() == "measuring: seed tables\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert list(tmp_path.iterdir()) == []  # what the worker was given is gone
    commands = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if _readable(file)]
    assert not any(str(tmp_path).encode() in command for command in commands)


def _readable(file):
    try:
        return bool(file.read_bytes())
    except OSError:  # it has just ended
        return False
