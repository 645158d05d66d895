"""Applying: exactly, all or nothing, once."""

import json
import os
import stat
from pathlib import Path

import pytest
from no_override import no_override
from patchbench import A1, A2, B2, FIRST, SECOND, A, Bench, make, patch_text

from firstword import paths
from firstword.cli import main
from firstword.errors import Exit, FirstwordError
from firstword.patching import Manifest, apply, manifest_path, verify
from firstword.patching.diffs import render
from firstword.patching.series import sha256


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make(tmp_path)


def refused(bench: Bench, match: str) -> FirstwordError:
    """Apply, expect a refusal, and that nothing at all has changed."""
    before = bench.snapshot()
    with pytest.raises(FirstwordError, match=match) as caught:
        apply(bench.series(), bench.site)
    assert caught.value.code == Exit.PATCHES
    assert bench.snapshot() == before
    return caught.value


def test_applies_and_leaves_a_manifest(bench: Bench) -> None:
    series = bench.series()
    manifest = apply(series, bench.site)
    assert bench.text("demo/a.py") == A2
    assert bench.text("demo/b.py") == B2
    assert manifest == Manifest.read(bench.site)
    written = json.loads(manifest_path(bench.site).read_text())
    assert written["series_sha256"] == series.sha256
    assert list(written["patches"]) == [FIRST, SECOND]
    assert list(written["files"]) == ["demo/a.py", "demo/b.py"]
    assert verify(bench.site, series) == []


def test_keeps_modes_and_line_ends_and_drops_stale_bytecode_only(bench: Bench) -> None:
    apply(bench.series(), bench.site)
    assert stat.S_IMODE((bench.site / "demo/a.py").stat().st_mode) == 0o640
    assert bench.text("demo/b.py").count("\r\n") == 4
    compiled = sorted(p.name for p in (bench.site / "demo/__pycache__").iterdir())
    assert compiled == ["c.cpython-312.pyc"]


def test_does_not_write_through_a_hard_link(bench: Bench, tmp_path: Path) -> None:
    """Installers share files between environments by hard links."""
    other = tmp_path / "cache.py"
    os.link(bench.site / "demo/a.py", other)
    apply(bench.series(), bench.site)
    assert other.read_text() == A


def test_refuses_a_second_time(bench: Bench) -> None:
    apply(bench.series(), bench.site)
    error = refused(bench, "already applied")
    assert "verify" in error.mend


@pytest.mark.parametrize("text", ["{", "[]", '{"a":' * 100_000], ids=["cut", "list", "deep"])
def test_a_damaged_manifest_or_list_of_checksums(bench: Bench, text: str) -> None:
    apply(bench.series(), bench.site)
    manifest_path(bench.site).write_text(text)
    refused(bench, "cannot read .*firstword-patches.json")
    (problem,) = verify(bench.site, bench.series())
    assert "cannot read" in problem.cause
    removing, applying = problem.mend.split(" && ")  # and that mends it
    assert removing == f"rm -r {manifest_path(bench.site)}"
    assert applying == f"firstword patches apply --site-packages {bench.site}"
    manifest_path(bench.site).unlink()
    apply(bench.series(), bench.site)
    assert verify(bench.site, bench.series()) == []
    bench.write("checksums.json", text)
    with pytest.raises(FirstwordError, match="not as refresh writes it"):
        bench.series()


TOUCHES = {
    "was changed after it was patched": lambda file: file.write_bytes(file.read_bytes() + b"#"),
    "is not patched": lambda file: file.write_text(A),
    "is missing": lambda file: file.unlink(),
}


@pytest.mark.parametrize("words", TOUCHES)
def test_says_what_verify_says_of_files_touched_since(bench: Bench, words: str) -> None:
    apply(bench.series(), bench.site)
    TOUCHES[words](bench.site / "demo/a.py")
    (problem,) = verify(bench.site, bench.series())
    error = refused(bench, f"since then: demo/a.py {words}")
    assert problem.cause in error.cause
    assert error.mend == problem.mend
    assert "demo==1.0" in error.mend


def test_refuses_over_another_series(bench: Bench) -> None:
    apply(bench.series(), bench.site)
    bench.write("series", f"{FIRST}\n")
    (bench.root / SECOND).unlink()
    sums = json.loads((bench.root / "checksums.json").read_text())["demo==1.0"]
    sums = {"demo/a.py": {"before": sums["demo/a.py"]["before"], "after": _sha(A1)}}
    bench.write("checksums.json", json.dumps({"demo==1.0": sums}))
    error = refused(bench, "another series is already applied")
    assert "demo==1.0" in error.mend


def test_applies_again_after_a_reinstall_that_left_the_manifest(bench: Bench) -> None:
    released = bench.snapshot()
    apply(bench.series(), bench.site)
    for path in ("demo/a.py", "demo/b.py"):
        (bench.site / path).write_bytes(released[path])
    apply(bench.series(), bench.site)
    assert bench.text("demo/a.py") == A2


@pytest.mark.parametrize("version", ["1.1", "0.9"])
def test_refuses_another_version(bench: Bench, version: str) -> None:
    old = bench.site / "demo-1.0.dist-info"
    new = old.rename(bench.site / f"demo-{version}.dist-info")
    (new / "METADATA").write_text(f"Metadata-Version: 2.1\nName: demo\nVersion: {version}\n")
    error = refused(bench, f"has demo {version}; the patches are for 1.0")
    assert "demo==1.0" in error.mend


def test_refuses_without_the_distribution(bench: Bench) -> None:
    for file in (bench.site / "demo-1.0.dist-info").iterdir():
        file.unlink()
    (bench.site / "demo-1.0.dist-info").rmdir()
    refused(bench, "has no demo")


def test_refuses_a_drifted_file(bench: Bench) -> None:
    file = bench.site / "demo/b.py"
    file.write_bytes(file.read_bytes() + b"# mine\r\n")
    refused(bench, "demo/b.py .* neither the released file nor the patched one")


def test_refuses_a_missing_file(bench: Bench) -> None:
    (bench.site / "demo/b.py").unlink()
    refused(bench, r"demo/b\.py .*No such file")


def test_refuses_another_result_than_declared(bench: Bench) -> None:
    sums = json.loads((bench.root / "checksums.json").read_text())
    sums["demo==1.0"]["demo/b.py"]["after"] = "0" * 64
    bench.write("checksums.json", json.dumps(sums))
    refused(bench, "not the declared file after the patches")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (" line 4\n", " line four\n", r"line 4: expected 'line four\\n', found 'line 4\\n'"),
        ("@@ -2,7 +2,7 @@", "@@ -3,7 +3,7 @@", "line 3: expected"),
        ("@@ -2,7 +2,7 @@", "@@ -2,7 +3,7 @@", "its header says it becomes line 3, not 2"),
        ("@@ -2,7 +2,7 @@", "@@ -90,7 +90,7 @@", "found the end of the file"),
    ],
    ids=["context", "offset", "target line", "beyond the end"],
)
def test_refuses_what_patch_would_accept_with_fuzz_or_offset(bench: Bench, old: str, new: str, why: str) -> None:
    text = (bench.root / FIRST).read_text()
    assert old in text
    bench.write(FIRST, text.replace(old, new))
    refused(bench, f"{FIRST} does not apply to demo/a.py: .*{why}")


class Interruption(BaseException):
    """Stands for a signal."""


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), Interruption()], ids=["disk", "signal"])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_an_interrupted_write_leaves_nothing_half_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, after: int, failure: BaseException
) -> None:
    """Fail at the first, second and third of three renames (two files and the manifest)."""
    before = bench.snapshot()
    replace, calls = os.replace, []

    def failing(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == after + 1:
            raise failure
        replace(source, target)

    monkeypatch.setattr("firstword.patching.replacing.os.replace", failing)
    with pytest.raises((FirstwordError, Interruption)):
        apply(bench.series(), bench.site)
    monkeypatch.undo()
    assert len(calls) > after
    del before["demo/__pycache__/a.cpython-312.pyc"]  # bytecode goes first; Python makes it again
    assert bench.snapshot() == before
    apply(bench.series(), bench.site)
    assert verify(bench.site, bench.series()) == []


def test_a_manifest_that_was_renamed_before_the_interruption_is_taken_away_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal can come when the rename is done and the call has not returned."""
    before = bench.snapshot()
    replace = os.replace

    def interrupted(source: Path, target: Path) -> None:
        replace(source, target)
        if target == manifest_path(bench.site):
            raise Interruption

    monkeypatch.setattr("firstword.patching.replacing.os.replace", interrupted)
    with pytest.raises(Interruption):
        apply(bench.series(), bench.site)
    monkeypatch.undo()
    del before["demo/__pycache__/a.cpython-312.pyc"]
    assert bench.snapshot() == before
    apply(bench.series(), bench.site)
    assert verify(bench.site, bench.series()) == []


def test_a_full_disk_shows_before_anything_changed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("firstword.patching.replacing.os.fsync", full)
    refused(bench, "nothing was changed")


def test_completes_what_a_killed_process_began(bench: Bench) -> None:
    """Killed between two renames: one file is new, one is old, and there is no manifest."""
    (bench.site / "demo/a.py").write_bytes(A2.encode())
    apply(bench.series(), bench.site)
    assert verify(bench.site, bench.series()) == []


def test_a_tree_may_hold_one_of_several_distributions(bench: Bench, tmp_path: Path) -> None:
    bench.write("series", f"{FIRST}\n{SECOND}\nother/0001-x.patch\n")
    (bench.root / "other").mkdir()
    diff = render("other/x.py", "1\n2\n3\n", "1\ntwo\n3\n")
    bench.write("other/0001-x.patch", patch_text(diff, Distribution="other==2.0"))
    sums = json.loads((bench.root / "checksums.json").read_text())
    sums["other==2.0"] = {"other/x.py": {"before": _sha("1\n2\n3\n"), "after": _sha("1\ntwo\n3\n")}}
    bench.write("checksums.json", json.dumps(sums))
    refused(bench, "has no other; the patches are for 2.0")
    manifest = apply(bench.series(), bench.site, partial=True)
    assert manifest.distributions == {"demo": "1.0"}
    assert bench.text("demo/a.py") == A2
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FirstwordError, match="holds no distribution that the patches are for"):
        apply(bench.series(), empty, partial=True)


def test_verify_names_what_differs(bench: Bench) -> None:
    series = bench.series()
    assert [p.cause for p in verify(bench.site, series)] == [f"the patches are not applied to {bench.site}"]
    apply(series, bench.site)
    released = make(bench.site.parent / "again")
    (bench.site / "demo/b.py").write_bytes(released.text("demo/b.py").encode())
    (bench.site / "demo/a.py").unlink()
    causes = [p.cause for p in verify(bench.site, series)]
    assert causes == ["demo/a.py is missing", "demo/b.py is not patched"]
    (bench.site / "demo/b.py").write_text("else\n")
    (bench.site / "demo-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 3\n")
    causes = [p.cause for p in verify(bench.site, series)]
    assert causes == [
        "demo is 3; the patches are for 1.0",
        "demo/a.py is missing",
        "demo/b.py was changed after it was patched",
    ]
    bench.write(FIRST, (bench.root / FIRST).read_text().replace("a change", "another change"))
    assert verify(bench.site, bench.series())[0].cause.endswith(f"is of another series than {bench.root}")
    manifest_path(bench.site).write_text("{")
    (problem,) = verify(bench.site, series)
    assert problem.cause.startswith(f"cannot read {manifest_path(bench.site)}: ")


def _sha(text: str) -> str:
    return sha256(text.encode())


def test_a_file_that_may_not_be_read(bench: Bench) -> None:
    apply(bench.series(), bench.site)
    (bench.site / "demo/a.py").chmod(0)
    with no_override():
        (problem,) = verify(bench.site, bench.series())
    assert problem.cause == "demo/a.py cannot be read (Permission denied)"
    assert problem.mend == f"let the user with id {os.geteuid()} read {bench.site / 'demo/a.py'}"


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["patches", "verify", "--site-packages", str(tmp_path / "none")]) == Exit.USAGE
    assert "there is no folder" in capsys.readouterr().err


def test_the_list_tells_each_patch_in_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["patches", "list"]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) % 3 == 0
    for name, subject, until in zip(*[iter(lines)] * 3, strict=True):
        description = (paths.root() / "patches" / name).read_text().splitlines()[0]
        assert f"Description: {subject.strip()}" == description
        assert until.startswith("  until: ")
