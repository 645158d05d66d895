"""`scripts/gpu-check`'s bundles: released files in, the declared files out, anything else refused."""

import json
import zipfile

import patchbench
import pytest

from firstword import paths
from firstword.bench.gpu_check import catalogue, sources
from firstword.errors import Exit, FirstwordError
from firstword.native import labels
from firstword.patching import apply, load_series


@pytest.fixture
def bench(tmp_path):
    return patchbench.make(tmp_path)


def bundled(bench, folder):
    bundle = folder / "bundle.zip"
    assert sources.make(bundle, bench.site, bench.root) == 2
    return bundle


def repacked(bundle, **changed):
    """Write a bundle anew with other contents: of None, nothing."""
    with zipfile.ZipFile(bundle) as packed:
        contents = {name: packed.read(name) for name in packed.namelist()} | changed
    with zipfile.ZipFile(bundle, "w") as packed:
        for name, data in contents.items():
            if data is not None:
                packed.writestr(name, data)
    return bundle


def test_a_bundle_holds_the_released_files_and_the_patches_make_the_declared_ones(bench, tmp_path):
    read = sources.read([bundled(bench, tmp_path)], bench.root)
    assert read.texts == {
        ("stock", "demo/a.py"): patchbench.A,
        ("patched", "demo/a.py"): patchbench.A2,
        ("stock", "demo/b.py"): patchbench.B,
        ("patched", "demo/b.py"): patchbench.B2,
    }
    assert read.manifest["demo/b.py"] == {
        "distribution": "demo",
        "version": "1.0",
        "sha256": sources.sha256(patchbench.B.encode()),
        "licence": "not declared",
    }


def test_a_patched_environment_gives_the_same_bundle(bench, tmp_path):
    before = sources.read([bundled(bench, tmp_path)], bench.root)
    apply(bench.series(), bench.site)
    assert bench.text("demo/a.py") == patchbench.A2
    assert sources.read([bundled(bench, tmp_path)], bench.root) == before


def test_a_wheel_is_a_bundle(bench, tmp_path):
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        for file in bench.site.rglob("*.py"):
            packed.write(file, file.relative_to(bench.site))
        packed.writestr("demo-1.0.dist-info/METADATA", "Name: demo\nLicense: MIT\n")
    read = sources.read([wheel], bench.root)
    assert read.texts["patched", "demo/b.py"] == patchbench.B2
    assert read.manifest["demo/b.py"]["licence"] == "MIT"
    with pytest.raises(sources.Absent, match=r"other\.py is in no bundle"):
        sources.text(read, "stock", "other.py")


@pytest.mark.parametrize("side", ["a byte more", "patched already", "a wrong manifest"])
def test_a_file_that_is_not_the_declared_one_is_refused(bench, tmp_path, side):
    bundle = bundled(bench, tmp_path)
    with zipfile.ZipFile(bundle) as packed:
        manifest = json.loads(packed.read("manifest.json"))
    manifest["files"]["demo/a.py"]["sha256"] = "0" * 64
    changes = {
        "a byte more": {"demo/a.py": patchbench.A + "\n"},
        "patched already": {"demo/a.py": patchbench.A2},
        "a wrong manifest": {"manifest.json": json.dumps(manifest)},
    }
    with pytest.raises(FirstwordError, match=r"demo/a\.py in .* is not the file of demo==1\.0") as refused:
        sources.read([repacked(bundle, **changes[side])], bench.root)
    assert refused.value.code == Exit.CHECKSUM


def test_what_is_no_bundle_is_refused(bench, tmp_path):
    text = tmp_path / "text"
    text.write_text("no zip")
    empty = repacked(bundled(bench, tmp_path), **{"demo/a.py": None, "demo/b.py": None})
    broken = tmp_path / "broken.zip"
    with zipfile.ZipFile(broken, "w") as packed:
        packed.writestr("manifest.json", "[]")
    for bundle, cause in (
        (text, "neither a bundle"),
        (empty, "no file that the patches"),
        (broken, "neither a bundle"),
    ):
        with pytest.raises(FirstwordError, match=cause) as refused:
            sources.read([bundle], bench.root)
        assert refused.value.code == Exit.USAGE


def test_patches_that_make_another_file_are_refused(bench, tmp_path):
    bundle = bundled(bench, tmp_path)
    text = (bench.root / patchbench.SECOND).read_bytes().decode()
    bench.write(patchbench.SECOND, text.replace("+line twenty\n", "+line 20.0\n"))
    with pytest.raises(FirstwordError, match=r"do not make the declared file of demo/a\.py") as refused:
        sources.read([bundle], bench.root)
    assert refused.value.code == Exit.PATCHES


def test_an_environment_of_other_files_makes_no_bundle(bench, tmp_path):
    (bench.site / "demo/a.py").write_text("mine = 1\n")
    with pytest.raises(FirstwordError, match="neither the released file nor the patched one"):
        bundled(bench, tmp_path)
    (bench.site / "demo/a.py").unlink()
    with pytest.raises(FirstwordError, match=r"has no demo/a\.py"):
        bundled(bench, tmp_path)


def test_its_reader_of_diffs_reads_the_whole_series_as_the_patching_library_does():
    root = paths.root() / "patches"
    series = load_series(root)
    for patch in series.patches:
        text = (root / patch.name).read_bytes().decode()
        assert tuple(sources.parse(text)) == patch.changes, patch.name
    assert labels.series_sha256(root) == series.sha256


def test_each_case_and_each_exception_names_patches_of_the_series():
    names = {patch.name for patch in load_series(paths.root() / "patches").patches}
    cut = {patch for case in catalogue.CASES.values() for patch in case.patches}
    assert cut | set(catalogue.NOT_CUT) <= names
    assert not cut & set(catalogue.NOT_CUT)
