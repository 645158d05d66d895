"""The series file, the patches' headers, side-by-side trees, refresh and the command."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patchbench import A1, A2, B2, FIRST, HEADER, SECOND, A, B, Bench, make, patch_text

from firstword.cli import main
from firstword.errors import Exit, FirstwordError
from firstword.patching import apply, build_tree, load_series, verify
from firstword.patching.diffs import DoesNotApply, FileChange, Hunk, apply_change, parse, render
from firstword.patching.refreshing import refresh

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make(tmp_path)


def test_reads_the_series(bench: Bench) -> None:
    series = bench.series()
    assert [p.name for p in series.patches] == [FIRST, SECOND]
    assert series.versions == {"demo": "1.0"}
    assert series.patches[1].depends == (FIRST,)
    assert [p.name for p in series.upto("0001-five.patch")] == [FIRST]
    assert series.upto("stock") == ()
    assert series.without(FIRST) == ()  # the second depends on it
    assert [p.name for p in series.without(SECOND)] == [FIRST]
    with pytest.raises(FirstwordError, match="no patch nothing"):
        series.upto("nothing")


def test_its_identity_is_its_order_and_its_bytes(bench: Bench) -> None:
    one = bench.series().sha256
    bench.write(FIRST, (bench.root / FIRST).read_text().replace("a change", "another"))
    assert bench.series().sha256 != one


@pytest.mark.parametrize("field", sorted(HEADER))
def test_every_header_field_must_be_there(bench: Bench, field: str) -> None:
    text = (bench.root / FIRST).read_text()
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith(f"{field}:")]
    bench.write(FIRST, "".join(lines))
    with pytest.raises(FirstwordError, match=f"header lacks {field}"):
        bench.series()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"Last_Update": "yesterday"}, "Last-Update is no date"),
        ({"Author": "someone"}, "Author must be 'the firstword authors'"),
        ({"Distribution": "demo"}, "Distribution must be demo==VERSION"),
        ({"Distribution": "omed==1.0"}, "Distribution must be demo==VERSION"),
        ({"Distribution": "demo==2.0"}, "is for 1.0, demo/0001-five.patch is for 2.0"),
        ({"Depends": SECOND}, "does not come earlier in the series"),
        ({"Depends": "demo/0009-none.patch"}, "does not come earlier in the series"),
        ({"Reviewed_By": "nobody"}, "has unknown Reviewed-By"),
    ],
)
def test_refuses_a_wrong_header(bench: Bench, fields: dict[str, str], why: str) -> None:
    bench.write(FIRST, patch_text(render("demo/a.py", A, A1), **fields))
    with pytest.raises(FirstwordError, match=why):
        bench.series()


@pytest.mark.parametrize(
    ("series", "why"),
    [
        (f"{SECOND}\n{FIRST}\n", "does not come earlier"),
        (f"{FIRST}\n{FIRST}\n{SECOND}\n", "stands twice"),
        (f"{FIRST}\n", f"does not name {SECOND}"),
        (f"{FIRST}\n{SECOND}\ndemo/0003-gone.patch\n", "No such file"),
        (f"{FIRST}\n../etc/passwd\n", "is not DISTRIBUTION/NNNN-words.patch"),
    ],
    ids=["order", "twice", "stray file", "missing file", "name"],
)
def test_refuses_a_wrong_series(bench: Bench, series: str, why: str) -> None:
    bench.write("series", series)
    with pytest.raises(FirstwordError, match=why):
        bench.series()


def test_refuses_an_order_that_the_numbers_do_not_tell(bench: Bench) -> None:
    bench.write(SECOND, patch_text(render("demo/b.py", B, B.replace("value = 1", "value = 2"))))
    bench.write("series", f"{SECOND}\n{FIRST}\n")
    with pytest.raises(FirstwordError, match=f"{FIRST} comes after {SECOND}"):
        bench.series()


def test_refuses_another_set_of_files_than_declared(bench: Bench) -> None:
    sums = json.loads((bench.root / "checksums.json").read_text())
    del sums["demo==1.0"]["demo/b.py"]
    sums["demo==1.0"]["demo/c.py"] = {"before": "0", "after": "1"}
    bench.write("checksums.json", json.dumps(sums))
    with pytest.raises(
        FirstwordError, match=r"changed but not declared: demo/b\.py; declared but not changed: demo/c\.py"
    ) as caught:
        bench.series()
    assert "refresh" in caught.value.mend


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        ("--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n", "not a unified diff"),
        ("--- /dev/null\n+++ b/x.py\n@@ -0,0 +1 @@\n+a\n", "adds, removes or renames"),
        ("--- a/x.py\n+++ b/y.py\n@@ -1 +1 @@\n-a\n+b\n", "adds, removes or renames"),
        ("--- a/../x.py\n+++ b/../x.py\n@@ -1 +1 @@\n-a\n+b\n", "leaves site-packages"),
        ("nothing here\n", "changes no file"),
    ],
)
def test_refuses_what_is_no_plain_change(diff: str, why: str) -> None:
    with pytest.raises(FirstwordError, match=why):
        parse(diff, "demo/0001-x.patch")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\r\nb\r\n", "a\r\nc\r\n"),
        ("a\nb", "a\nc"),
        ("a\nb", "a\nb\n"),
        ("a\n\x0cb\u2028\n", "a\n\x0cc\u2028\n"),
    ],
    ids=["plain", "CRLF", "no last newline", "newline added", "odd separators"],
)
def test_a_rendered_diff_applies_and_reverses_to_the_byte(before: str, after: str) -> None:
    (change,) = parse(render("x.py", before, after), "demo/0001-x.patch")
    assert apply_change(change, before) == after
    assert apply_change(change.reversed(), after) == before


@pytest.mark.parametrize(
    ("text", "hunks", "why"),
    [
        ("x\na\nb\na\nb\n", [Hunk(1, 1, ("a\n", "b\n"), ("c\n",))], "line 1: its context stands 2 times"),
        ("x\ny\n", [Hunk(1, 1, ("a\n", "b\n"), ("c\n",))], "line 1: its context stands 0 times"),
        (
            "a\nb\nc\n",
            [Hunk(1, 1, ("a\n", "b\n"), ("A\n", "B\n")), Hunk(2, 2, ("b\n", "c\n"), ("b\n", "C\n"))],
            "line 2: overlaps",
        ),
    ],
    ids=["two places", "no place", "overlap"],
)
def test_a_hunk_is_moved_only_to_the_one_place_that_is_left(text: str, hunks: list[Hunk], why: str) -> None:
    with pytest.raises(DoesNotApply, match=why):
        apply_change(FileChange("x.py", tuple(hunks)), text, relocate=True)


@pytest.mark.parametrize("patched", [False, True], ids=["released", "patched"])
@pytest.mark.parametrize(
    ("choice", "a", "b"),
    [
        ({}, A2, B2),
        ({"upto": "stock"}, A, B),
        ({"upto": FIRST}, A1, B),
        ({"without": SECOND}, A1, B),
        ({"without": FIRST}, A, B),
    ],
)
def test_builds_trees_from_released_and_from_patched_packages(
    bench: Bench, tmp_path: Path, patched: bool, choice: dict[str, str], a: str, b: str
) -> None:
    if patched:
        apply(bench.series(), bench.site)
    before = bench.snapshot()
    tree = build_tree(tmp_path / "tree", bench.site, bench.series(), **choice)
    assert (tree / "demo/a.py").read_bytes().decode() == a
    assert (tree / "demo/b.py").read_bytes().decode() == b
    assert (tree / "demo/c.py").read_bytes() == b"unchanged = 1\n"
    assert not (tree / "demo/__pycache__/a.cpython-312.pyc").exists()
    assert bench.snapshot() == before
    got = subprocess.run(
        [sys.executable, "-c", "import demo.c; print(demo.c.__file__)"],
        env={"PYTHONPATH": str(tree)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert got.stdout.strip() == str(tree / "demo/c.py")


def test_leaves_an_independent_patch_out_though_it_moves_the_lines_of_the_next(bench: Bench, tmp_path: Path) -> None:
    longer = A.replace("line 5\n", "line 5\nand a half\n")
    both = longer.replace("line 20\n", "line twenty\nand more\n")
    bench.write(FIRST, patch_text(render("demo/a.py", A, longer)))
    bench.write(SECOND, patch_text(render("demo/a.py", longer, both), render("demo/b.py", B, B2)))
    series = refresh(bench.series(), bench.site)
    tree = build_tree(tmp_path / "tree", bench.site, series, without=FIRST)
    assert (tree / "demo/a.py").read_text() == A.replace("line 20\n", "line twenty\nand more\n")


def test_refuses_a_tree_from_a_drifted_file(bench: Bench, tmp_path: Path) -> None:
    (bench.site / "demo/a.py").write_text("else\n")
    with pytest.raises(FirstwordError, match="neither the released file nor the patched one"):
        build_tree(tmp_path / "tree", bench.site, bench.series())


@pytest.mark.parametrize("patched", [False, True], ids=["released", "patched"])
def test_refresh_changes_nothing_when_nothing_changed(bench: Bench, patched: bool) -> None:
    series = bench.series()
    if patched:
        apply(series, bench.site)
    refresh(series, bench.site)
    once = {p: p.read_bytes() for p in bench.root.rglob("*") if p.is_file()}
    again = refresh(bench.series(), bench.site)
    assert {p: p.read_bytes() for p in bench.root.rglob("*") if p.is_file()} == once
    assert again.sums == series.sums
    assert again.sha256 == series.sha256


def test_refresh_moves_the_series_to_a_release_with_moved_lines(bench: Bench) -> None:
    (bench.site / "demo/a.py").write_text("new first line\n" + A)
    with pytest.raises(FirstwordError):
        apply(bench.series(), bench.site)
    series = refresh(load_series(bench.root, strict=False), bench.site)
    assert "@@ -3,7 +3,7 @@" in (bench.root / FIRST).read_text()
    apply(series, bench.site)
    assert bench.text("demo/a.py") == "new first line\n" + A2


def test_refresh_names_a_patch_whose_code_is_gone(bench: Bench) -> None:
    (bench.site / "demo/a.py").write_text(A.replace("line 5\n", "line V\n"))
    with pytest.raises(FirstwordError, match=f"{FIRST} does not apply .*its context stands 0 times"):
        refresh(load_series(bench.root, strict=False), bench.site)


def test_refresh_takes_an_edited_tree(bench: Bench, tmp_path: Path) -> None:
    tree = build_tree(tmp_path / "tree", bench.site, bench.series(), upto=FIRST)
    for path, old, new in (("demo/a.py", "line 9\n", "line nine\n"), ("demo/c.py", "1", "7")):
        file = tree / path
        text = file.read_text().replace(old, new)
        file.unlink()  # the tree's files are hard links
        file.write_text(text)
    series = refresh(bench.series(), bench.site, patch=FIRST, edited=tree)
    assert [c.path for c in series.patches[0].changes] == ["demo/a.py", "demo/c.py"]
    apply(series, bench.site)
    assert bench.text("demo/a.py") == A2.replace("line 9\n", "line nine\n")
    assert bench.text("demo/c.py") == "unchanged = 7\n"


def test_a_new_patch_begins_as_a_header(bench: Bench, tmp_path: Path) -> None:
    new = "demo/0003-c.patch"
    bench.write("series", f"{FIRST}\n{SECOND}\n{new}\n")
    bench.write(new, patch_text())
    with pytest.raises(FirstwordError, match="holds no diff"):
        bench.series()
    series = load_series(bench.root, strict=False)
    tree = build_tree(tmp_path / "tree", bench.site, series, upto=new, link=False)
    (tree / "demo/c.py").write_text("unchanged = 9\n")
    assert bench.text("demo/c.py") == "unchanged = 1\n"
    refresh(series, bench.site, patch=new, edited=tree)
    apply(bench.series(), bench.site)
    assert bench.text("demo/c.py") == "unchanged = 9\n"


def test_refuses_to_build_over_something(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(FirstwordError, match="is not empty"):
        build_tree(tmp_path, bench.site, bench.series())


def test_the_command(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    root = bench.root.parent
    (root / "configs").mkdir()
    monkeypatch.setenv("FIRSTWORD_ROOT", str(root))
    where = ["--site-packages", str(bench.site)]
    assert main(["patches", "verify", *where]) == Exit.PATCHES
    assert "are not applied" in capsys.readouterr().out
    assert main(["patches", "apply", *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["applied"] == [FIRST, SECOND]
    assert main(["patches", "verify", *where]) == 0
    assert "2 patches in place" in capsys.readouterr().out
    assert main(["patches", "apply", *where]) == Exit.PATCHES
    assert "mend:" in capsys.readouterr().err
    assert main(["patches", "list"]) == 0
    assert SECOND in capsys.readouterr().out
    assert main(["patches", "tree", str(root / "tree"), "--upto", "stock", *where]) == 0
    assert (root / "tree/demo/a.py").read_text() == A
    assert main(["patches", "refresh", *where, "--patch", FIRST]) == Exit.USAGE


# The series that is shipped.


def test_the_shipped_series_is_whole() -> None:
    series = load_series(ROOT / "patches")
    assert series.versions == {"step-audio2": "1.0.0", "vllm-omni": "0.26.0"}
    for patch in series.patches:
        assert len(patch.header["Description"].split()) > 10, patch.name
        assert patch.header["Applied-Upstream"].partition(" ")[0].strip(";,") in ("no", "after", "0.28.0"), patch.name


@pytest.mark.parametrize("patch", [p.name for p in load_series(ROOT / "patches").patches])
def test_every_shipped_patch_stands_once_in_the_readme(patch: str) -> None:
    text = (ROOT / "patches/README.md").read_text()
    assert text.count(f"]({patch})") == 1


def test_the_shipped_versions_are_the_locked_ones() -> None:
    lock = (ROOT / "docker/requirements/engine-cpu.txt").read_text()
    for distribution, version in load_series(ROOT / "patches").versions.items():
        assert f"\n{distribution}=={version} " in lock


def test_the_shipped_series_refreshes_to_itself(tmp_path: Path) -> None:
    from firstword.patching.environment import find_site_packages

    copy = shutil.copytree(ROOT / "patches", tmp_path / "patches")
    series = load_series(copy)
    refresh(series, find_site_packages(series.versions))
    for file in ROOT.glob("patches/*/*.patch"):
        assert (copy / file.relative_to(ROOT / "patches")).read_bytes() == file.read_bytes(), file.name
    assert (copy / "checksums.json").read_bytes() == (ROOT / "patches/checksums.json").read_bytes()


def test_the_shipped_series_applies_to_the_installed_packages(tmp_path: Path) -> None:
    """Apply it to a released copy of what is installed here."""
    from firstword.patching.environment import find_site_packages

    series = load_series(ROOT / "patches")
    site = find_site_packages(series.versions)
    tree = build_tree(tmp_path / "tree", site, series, upto="stock")
    for distribution, version in series.versions.items():
        info = tree / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    apply(series, tree)
    assert verify(tree, series) == []


def test_a_series_that_is_no_text(bench: Bench) -> None:
    (bench.root / "series").write_bytes(b"\xff\n")
    with pytest.raises(FirstwordError, match="series: not UTF-8"):
        bench.series()
