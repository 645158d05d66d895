"""Versions against the lock, files against their RECORD: on distributions made for the test."""

import base64
import hashlib
import shutil
from pathlib import Path

import pytest

from firstword.engine.preflight import Context, Finding, exit_code, integrity
from firstword.engine.preflight.installed import Installed, canonical
from firstword.engine.preflight.survey import Survey
from firstword.engine.preflight.versions import read_lock, versions
from firstword.errors import Exit


def install(site: Path, name: str, version: str, files: dict[str, str], requires: tuple[str, ...] = ()) -> None:
    rows = []
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        rows.append(f"{path},sha256={digest},{len(text.encode())}")
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "RECORD").write_text("\n".join([*rows, f"{folder.name}/RECORD,,"]))
    lines = ["Metadata-Version: 2.1", f"Name: {name}", *(f"Requires-Dist: {need}" for need in requires)]
    (folder / "METADATA").write_text("\n".join(lines) + "\n\nRequires-Dist: not-a-header\n")


@pytest.fixture
def site(tmp_path):
    site = tmp_path / "site"
    main = "def main():\n    import vllm_omni.server\n"
    install(
        site,
        "vllm_omni",
        "0.26.0",
        {
            "vllm_omni/__init__.py": "",
            "vllm_omni/entrypoints/__init__.py": "",
            "vllm_omni/entrypoints/cli/__init__.py": "",
            "vllm_omni/entrypoints/cli/main.py": main,
            "vllm_omni/server.py": "import soundfile\n",
            "vllm_omni/data.json": "{}",
        },
        ("torch>=2",),
    )
    install(site, "soundfile", "0.14.0", {"soundfile.py": "import cffi\n"}, ("cffi>=1", "numpy; extra == 'numpy'"))
    install(site, "cffi", "2.1.1", {"cffi/__init__.py": ""})
    return site


@pytest.fixture
def lock(tmp_path, monkeypatch):
    for folder in ("configs", "docker/requirements"):
        (tmp_path / folder).mkdir(parents=True)
    file = tmp_path / "docker/requirements/engine-cpu.txt"
    file.write_text(
        "vllm-omni==0.26.0 \\\n    --hash=sha256:00\nsoundfile==0.14.0\ncffi==2.1.1\nunused==1\n# via x==9\n"
    )
    monkeypatch.setenv("FIRSTWORD_ROOT", str(tmp_path))
    return file


def survey(site: Path, *, deep: bool = False) -> Survey:
    return Survey(Context("cpu", site_packages=site, deep=deep))


def test_locks(lock):
    assert read_lock(lock) == {"vllm-omni": "0.26.0", "soundfile": "0.14.0", "cffi": "2.1.1", "unused": "1"}


def test_versions_that_agree(site, lock):
    assert list(versions(survey(site))) == []


def test_a_version_that_differs(site, lock):
    lock.write_text(lock.read_text().replace("soundfile==0.14.0", "soundfile==0.13.1"))
    (finding,) = versions(survey(site))
    assert finding.cause == "soundfile 0.14.0 is installed, engine-cpu.txt says 0.13.1"
    assert "--reinstall-package soundfile" in finding.mend


@pytest.mark.parametrize(
    ("version", "pin", "agrees"), [("2.11.0+cpu", "2.11.0", True), ("2.11.0", "2.11.0+cpu", False)]
)
def test_local_versions(site, lock, version, pin, agrees):
    install(site, "torch", version, {"torch/__init__.py": ""})
    lock.write_text(lock.read_text() + f"torch=={pin}\n")
    assert (list(versions(survey(site))) == []) is agrees


def test_a_distribution_that_the_lock_does_not_hold(site, lock):
    lock.write_text("vllm-omni==0.26.0\nsoundfile==0.14.0\n")
    (finding,) = versions(survey(site))
    assert finding.cause == "cffi 2.1.1 is used, and engine-cpu.txt does not hold it"


def test_an_image_holds_the_whole_lock(site, lock):
    (finding,) = versions(survey(site, deep=True))
    assert finding.cause == "unused, which engine-cpu.txt holds, is not installed"


def test_a_lock_that_is_not_there(site, lock):
    lock.unlink()
    (finding,) = versions(survey(site))
    assert finding.code is Exit.CONFIG


def differing(site: Path, *, deep: bool = False) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    return {d.distribution.name: (d.gone, d.changed) for d in integrity.differences(survey(site, deep=deep))}


def test_files_as_installed(site, lock):
    assert differing(site) == {}
    assert differing(site, deep=True) == {}


def test_a_file_that_is_gone(site, lock):
    (site / "vllm_omni/data.json").unlink()
    assert differing(site) == {"vllm-omni": (("vllm_omni/data.json",), ())}


@pytest.fixture
def server(site, lock):
    """A web server that finds its protocols by name, and a library with compiled parts: imported, never read."""
    (site / "vllm_omni/server.py").unlink()
    (site / "vllm_omni-0.26.0.dist-info/METADATA").unlink()
    (site / "vllm_omni-0.26.0.dist-info/RECORD").unlink()
    (site / "vllm_omni-0.26.0.dist-info").rmdir()
    install(
        site,
        "vllm_omni",
        "0.26.0",
        {
            "vllm_omni/entrypoints/cli/main.py": "def main():\n    import vllm_omni.server\n",
            "vllm_omni/server.py": "import torch\nimport uvicorn\n",
        },
    )
    install(site, "uvicorn", "1", {"uvicorn/__init__.py": "", "uvicorn/protocols/auto.py": "x", "uvicorn/py.typed": ""})
    files = {"torch/__init__.py": "", "torch/_C.so": "\x7fELF", "torch/lib/libtorch.so.2": "\x7fELF"}
    install(site, "torch", "2", files | {"_helper.abi3.so": "\x7fELF"}, ("gomp",))
    install(site, "gomp", "1", {"gomp.libs/libgomp.so.1": "\x7fELF"})
    install(site, "unneeded", "1", {"unneeded/__init__.py": ""})
    assert differing(site) == {}
    return site


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("torch", "torch/_C.so"),
        ("torch", "torch/lib/libtorch.so.2"),
        ("torch", "_helper.abi3.so"),
        ("gomp", "gomp.libs/libgomp.so.1"),
        ("uvicorn", "uvicorn/protocols/auto.py"),
        ("uvicorn", "uvicorn/py.typed"),
    ],
)
@pytest.mark.parametrize("how", ["gone", "link to nothing", "folder"])
def test_a_file_that_no_import_statement_leads_to(server, name, path, how):
    (server / path).unlink()
    if how == "link to nothing":
        (server / path).symlink_to("cleaned/from/a/cache")
    elif how == "folder":
        (server / path).mkdir()
    assert differing(server) == {name: ((path,), ())}


def test_a_folder_that_is_gone_with_all_its_files(server):
    shutil.rmtree(server / "uvicorn/protocols")
    assert differing(server) == {"uvicorn": (("uvicorn/protocols/auto.py",), ())}


@pytest.mark.parametrize("path", ["torch/_C.so", "torch/lib/libtorch.so.2"])
def test_what_is_compiled_and_cut_short(server, path):
    """A disk that was full at install leaves the name."""
    (server / path).write_text("")
    assert differing(server) == {"torch": ((), (path,))}


def test_other_files_of_what_is_only_imported_are_not_looked_at(server):
    (server / "uvicorn/protocols/auto.py").write_text("somebody's own change")
    assert differing(server) == {}
    assert differing(server, deep=True) == {"uvicorn": ((), ("uvicorn/protocols/auto.py",))}


@pytest.mark.parametrize("path", ["../../bin/tool", "uvicorn/__pycache__/server.cpython-312.pyc", "uvicorn.pth"])
def test_what_no_import_needs_may_be_gone(server, path):
    """Scripts and manuals lie elsewhere; bytecode is made anew, and `firstword patches apply` drops it."""
    record = server / "uvicorn-1.dist-info/RECORD"
    record.write_text(f"{path},sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n{record.read_text()}")
    assert differing(server) == {}
    assert differing(server, deep=True) == {}


def test_a_file_that_two_distributions_bring(site, lock):
    """The last one installed wins; that is no damage, as long as it is as one of them brought it."""
    install(site, "other", "1", {"vllm_omni/data.json": '{"other": 1}'})
    assert differing(site) == {}
    (site / "vllm_omni/data.json").write_text('{"nobody": 1}  ')
    assert differing(site) == {"vllm-omni": ((), ("vllm_omni/data.json",))}


def test_what_serving_does_not_need_may_be_gone(server):
    shutil.rmtree(server / "unneeded")
    assert differing(server) == {}


def test_when_a_file_that_is_gone_shows(server):
    for path in ("torch/lib/libtorch.so.2", "uvicorn/protocols/auto.py"):
        (server / path).unlink()
    look = survey(server)
    torch, uvicorn = (
        finding for found in integrity.differences(look) for finding in integrity.findings(look, found, {})
    )
    assert torch.cause == "1 file of torch 2 gone: torch/lib/libtorch.so.2"
    assert torch.later.startswith("vllm serve ends at start: ImportError")
    assert uvicorn.later.startswith("what needs it first fails")
    assert "--reinstall-package uvicorn" in uvicorn.mend


def test_a_wheel_whose_own_record_is_wrong_is_not_judged(server):
    install(server, "pynvvideocodec", "2.0.4", {"pynvvideocodec/__init__.py": ""})
    (server / "pynvvideocodec/__init__.py").unlink()
    metadata = server / "torch-2.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("gomp", "pynvvideocodec"))
    assert "pynvvideocodec" in {found.name for found in survey(server).needed_distributions}
    assert differing(server) == {}


def test_a_source_of_the_same_size_that_changed(site, lock):
    (site / "vllm_omni/server.py").write_text("import soundfilf\n")
    assert differing(site) == {"vllm-omni": ((), ("vllm_omni/server.py",))}


def test_other_files_of_the_same_size_are_read_in_deep_mode_only(site, lock):
    (site / "vllm_omni/data.json").write_text("[]")
    (site / "cffi/__init__.py").write_text("x=1\n")
    assert differing(site) == {}
    assert differing(site, deep=True) == {
        "vllm-omni": ((), ("vllm_omni/data.json",)),
        "cffi": ((), ("cffi/__init__.py",)),
    }


def test_findings_of_files(site, lock):
    look = survey(site)
    (site / "vllm_omni/server.py").write_text("raise RuntimeError\n")
    (site / "vllm_omni/data.json").unlink()
    (found,) = integrity.differences(look)
    gone, broken = integrity.findings(look, found, {"vllm_omni.server": "RuntimeError: broken"})
    assert gone.cause == "1 file of vllm-omni 0.26.0 gone: vllm_omni/data.json"
    assert broken.cause == (
        "vllm_omni/server.py is not what vllm-omni 0.26.0 installed, and raises on import: RuntimeError: broken"
    )
    _, changed = integrity.findings(look, found, {})
    assert changed.cause == (
        "1 file of vllm-omni 0.26.0 changed since installed, and not by patches/: vllm_omni/server.py"
    )


def test_what_distributions_declare(site):
    installed = Installed(site)
    assert installed.distributions["soundfile"].requires == ("cffi",)
    assert installed.closure({"soundfile"}) == {"cffi": "soundfile"}
    assert installed.closure({"vllm-omni"}) == {"torch": "vllm-omni"}
    assert installed.owners["vllm_omni"].name == "vllm-omni"


def test_canonical_names():
    assert [canonical(name) for name in ("step_audio2", "Jinja2", "ruamel.yaml", "a--b")] == [
        "step-audio2",
        "jinja2",
        "ruamel-yaml",
        "a-b",
    ]


def test_exit_codes():
    def finding(code: Exit) -> Finding:
        return Finding("c", "s", "cause", "later", "mend", code)

    assert exit_code([]) is Exit.OK
    assert exit_code([finding(Exit.PORT_IN_USE)]) is Exit.PORT_IN_USE
    assert exit_code([finding(Exit.ENVIRONMENT)] * 2) is Exit.ENVIRONMENT
    assert exit_code([finding(Exit.PORT_IN_USE), finding(Exit.ENVIRONMENT)]) is Exit.PREFLIGHT
