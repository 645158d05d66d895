"""Versions against the lock, files against their RECORD: on distributions made for the test."""

import base64
import hashlib
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
