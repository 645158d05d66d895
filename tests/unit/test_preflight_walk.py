"""The walk over imports, on small packages written for it."""

from pathlib import Path

import pytest

from firstword.engine.preflight import phases
from firstword.engine.preflight.resolve import Resolver, search_paths
from firstword.engine.preflight.sources import Sources
from firstword.engine.preflight.walk import Start, Walk, Walker

EARLY = phases.START
INSPECTION = phases.inspection(0, "Arch")


def write(site: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def walk(
    site: Path, *starts: Start, own: tuple[str, ...] = ("vllm_omni.model",), entries: tuple[str, ...] = ()
) -> Walk:
    sources = Sources("cpu", None)
    return Walker(Resolver(search_paths(site)), sources, entries, own).walk(starts)


def absent(found: Walk) -> dict[str, str]:
    return {f"{item.module}.{item.name}".rstrip("."): item.phase.name for item in found.absent.values()}


def test_what_is_missing_and_when_it_shows(tmp_path):
    write(
        tmp_path,
        {
            "vllm_omni/__init__.py": "import eager_missing\n",
            "vllm_omni/model/__init__.py": "",
            "vllm_omni/model/net.py": (
                "from .part import Part\nimport json\ndef f():\n    import lazy_missing\n"
                "if settings.fast:\n    import conditional_missing\n"
            ),
            "vllm_omni/model/part.py": (
                "try:\n    import av\nexcept ImportError:\n    av = None\n"
                "try:\n    import optional\nexcept ImportError:\n    HAS = False\n"
                "class Part: pass\n"
            ),
            "vllm_omni/server.py": "def handler():\n    import mooncake\nif settings.remote:\n    import modelscope\n",
        },
    )
    found = walk(
        tmp_path,
        Start("vllm_omni.server", EARLY, "vllm serve imports it"),
        Start("vllm_omni.model.net", INSPECTION, "the registry names it"),
    )
    assert absent(found) == {
        "eager_missing": "start",
        "lazy_missing": "first use",
        "conditional_missing": "first use",
        "av": "audio request",
    }


def test_the_earliest_importer_decides_when_a_loss_shows(tmp_path):
    write(
        tmp_path,
        {
            "vllm_omni/__init__.py": "",
            "vllm_omni/model/__init__.py": "",
            "vllm_omni/model/a.py": "def f():\n    import gone\n",
            "vllm_omni/model/b.py": "import gone\n",
        },
    )
    found = walk(
        tmp_path,
        Start("vllm_omni.model.a", EARLY, ""),
        Start("vllm_omni.model.b", INSPECTION, ""),
    )
    assert absent(found) == {"gone": INSPECTION.name}


def test_functions_of_an_entry_run_at_start(tmp_path):
    write(tmp_path, {"vllm_omni/__init__.py": "", "vllm_omni/main.py": "def main():\n    import gone\n"})
    start = Start("vllm_omni.main", EARLY, "")
    assert absent(walk(tmp_path, start, entries=("vllm_omni.main",))) == {"gone": "start"}
    assert absent(walk(tmp_path, start)) == {}


def test_renamed_things_are_found_in_classes_functions_and_submodules(tmp_path):
    write(
        tmp_path,
        {
            "vllm_omni/__init__.py": "",
            "vllm_omni/model/__init__.py": "from .net import Net, function, Gone\nfrom . import part, absent_part\n",
            "vllm_omni/model/net.py": "class Net: ...\ndef function(): ...\n",
            "vllm_omni/model/part.py": "",
        },
    )
    found = walk(tmp_path, Start("vllm_omni.model", INSPECTION, "", ("NotThere",)))
    assert absent(found) == {
        "vllm_omni.model.net.Gone": INSPECTION.name,
        "vllm_omni.model.absent_part": INSPECTION.name,
        "vllm_omni.model.NotThere": INSPECTION.name,
    }


def test_open_ended_and_compiled_modules_raise_no_alarm(tmp_path):
    write(
        tmp_path,
        {
            "vllm_omni/__init__.py": "from vllm import anything\nfrom vllm._C import op\n",
            "vllm/__init__.py": "def __getattr__(name): ...\n",
            "vllm/_C.abi3.so": "",
        },
    )
    assert absent(walk(tmp_path, Start("vllm_omni", EARLY, ""))) == {}


def test_a_module_that_is_no_python(tmp_path):
    write(tmp_path, {"vllm_omni/__init__.py": "import vllm_omni.broken\n", "vllm_omni/broken.py": "def f(:\n"})
    found = walk(tmp_path, Start("vllm_omni", EARLY, ""))
    assert "SyntaxError" in found.unreadable["vllm_omni.broken"]


def test_what_an_uninstalled_package_leaves_behind_is_not_the_package(tmp_path):
    write(tmp_path, {"vllm_omni/__init__.py": "import librosa\n", "librosa/__pycache__/x.pyc": ""})
    assert absent(walk(tmp_path, Start("vllm_omni", EARLY, ""))) == {"librosa": "start"}


def test_namespace_packages_and_pth_files(tmp_path):
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    write(
        site,
        {
            "vllm_omni/__init__.py": "import google.protobuf.message\nimport editable.part\n",
            "links.pth": str(elsewhere),
        },
    )
    write(site, {"google/protobuf/__init__.py": "", "google/protobuf/message.py": ""})
    write(elsewhere, {"editable/part.py": ""})
    found = walk(site, Start("vllm_omni", EARLY, ""))
    assert absent(found) == {}
    assert "editable.part" in found.reached


def test_the_memory_of_sources_is_keyed_by_content(tmp_path):
    site = tmp_path / "site"
    write(site, {"vllm_omni/__init__.py": "import gone\n"})
    for text, expected in (
        ("import gone\n", {"gone": "start"}),
        ("import json\n", {}),
        ("import gone\n", {"gone": "start"}),
    ):
        (site / "vllm_omni/__init__.py").write_text(text)
        sources = Sources("cpu", tmp_path / "memory")
        found = Walker(Resolver(search_paths(site)), sources, (), ()).walk([Start("vllm_omni", EARLY, "")])
        sources.save()
        assert absent(found) == expected
    (kept,) = (tmp_path / "memory").iterdir()
    kept.write_text("{ damaged")
    assert absent(
        Walker(Resolver(search_paths(site)), Sources("cpu", tmp_path / "memory"), (), ()).walk(
            [Start("vllm_omni", EARLY, "")]
        )
    ) == {"gone": "start"}


def test_a_memory_that_cannot_be_kept_is_no_failure(tmp_path):
    site = tmp_path / "site"
    write(site, {"vllm_omni/__init__.py": ""})
    (tmp_path / "file").write_text("")
    sources = Sources("cpu", tmp_path / "file" / "memory")
    Walker(Resolver(search_paths(site)), sources, (), ()).walk([Start("vllm_omni", EARLY, "")])
    sources.save()


@pytest.mark.parametrize("name", ["os.path", "json", "importlib.metadata"])
def test_the_standard_library_is_never_asked_for(tmp_path, name):
    write(tmp_path, {"vllm_omni/__init__.py": f"import {name}\n"})
    assert absent(walk(tmp_path, Start("vllm_omni", EARLY, ""))) == {}
