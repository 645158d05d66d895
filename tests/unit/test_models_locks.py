"""The shipped locks: whole, consistent with one another, and what the catalogue and the documents say."""

import re
import shutil

import pytest

from firstword import paths
from firstword.cli import main
from firstword.engine import config as configs
from firstword.engine import models
from firstword.engine.models import catalog, checkpoint, locks, tables
from firstword.engine.preflight import command
from firstword.errors import Exit, FirstwordError

NAMES = [
    "qwen3-tts-0.6b-base",
    "qwen3-tts-0.6b-customvoice",
    "qwen3-tts-1.7b-base",
    "qwen3-tts-1.7b-customvoice",
    "qwen3-tts-1.7b-voicedesign",
    "step-audio-2-mini",
]


def test_the_published_names() -> None:
    assert locks.names() == NAMES
    assert models.names() == [*NAMES, *catalog.SYNTHETIC]


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_is_whole(name: str) -> None:
    lock = locks.load(name)
    assert re.fullmatch(r"[0-9a-f]{40}", lock.revision)
    assert lock.kind in checkpoint.KINDS[lock.family]
    assert lock.licence == "Apache-2.0"
    for path, file in lock.files.items():
        assert locks.is_safe(path)
        assert file.size > 0
        assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256)
    if lock.complete:
        assert all(file.sha256 for file in lock.files.values())
        assert set(checkpoint.REQUIRED[lock.family]) <= set(lock.files)
        assert "model.safetensors" in lock.files


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_agree_with_the_architecture(name: str) -> None:
    """The locked size of the weights is what the locked shape of the language model needs, and a little more."""
    lock = locks.load(name)
    shape = lock.architecture
    heads = 28 if lock.family == "step-audio-2" else 16
    attention = shape["hidden"] * shape["head_dim"] * (2 * heads + 2 * shape["kv_heads"])
    layer = attention + 3 * shape["hidden"] * shape["intermediate"]
    bytes_of_layers = 2 * shape["layers"] * layer
    size = configs.of_sizes(lock.family, shape, {p: f.size for p, f in lock.files.items()}).language_model_bytes
    assert 0.4 < bytes_of_layers / size < 0.95


def test_files_that_all_qwen3_tts_models_share_agree() -> None:
    shared: dict[str, set[tuple[int, str | None]]] = {}
    for name in NAMES[:-1]:
        for path, file in locks.load(name).files.items():
            if path not in ("config.json", "model.safetensors"):
                shared.setdefault(path, set()).add((file.size, file.sha256))
    assert len(shared) == 9
    assert all(len(found) == 1 for found in shared.values())


def test_no_two_models_share_weights_or_a_revision() -> None:
    assert len({locks.load(name).revision for name in NAMES}) == len(NAMES)
    weights = [
        f.sha256 for n in NAMES for p, f in locks.load(n).files.items() if "/" not in p and p.endswith("tensors")
    ]
    assert len(set(weights)) == len(weights) == 9


def test_entries_say_what_a_model_can_do() -> None:
    entry = models.get("qwen3-tts-1.7b-voicedesign")
    assert (entry.family, entry.kind, entry.synthetic) == ("qwen3-tts", "voice_design", False)
    entry = models.get("step-audio-2-mini-synthetic")
    assert (entry.family, entry.kind, entry.synthetic, entry.lock) == ("step-audio-2", "mini", True, None)
    assert models.get("Qwen/Qwen3-TTS-12Hz-0.6B-Base").name == "qwen3-tts-0.6b-base"


@pytest.mark.parametrize("name", ["", "../step-audio-2-mini", "step-audio-2-mini.lock", "gpt-4o-mini-tts"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(FirstwordError) as caught:
        models.get(name)
    assert caught.value.code is Exit.MODEL_UNKNOWN
    assert "`firstword models list` shows all" in caught.value.mend


@pytest.mark.parametrize("path", ["", "/a", "../a", "a/../b", ".a", "a/.b", "a\\b", "a\0b"])
def test_paths_that_a_lock_or_a_hub_may_not_name(path: str) -> None:
    assert not locks.is_safe(path)


def test_the_document_agrees_with_the_code() -> None:
    text = tables.document().read_text()
    assert tables.fill(text) == text, "run: python -m firstword.engine.models.tables"
    for name in tables.TABLES:
        assert text.count(f"<!-- table: {name} -->") == 1
    for name in models.names():
        assert f"`{name}`" in text
    for family in ("qwen3-tts", "step-audio-2"):
        for shape in configs.shapes(family):
            assert f"| {family} | `{shape}` |" in text


def test_a_table_that_is_out_of_date_is_rewritten() -> None:
    text = "a\n<!-- table: synthetic -->\nold\n<!-- end -->\nb\n"
    filled = tables.fill(text)
    assert "old" not in filled
    assert filled.startswith("a\n")
    assert filled.endswith("<!-- end -->\nb\n")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (r"^revision.*", 'revision = "main"', "its revision is 'main'"),
        (r"^complete.*", 'complete = "no"', "its complete is 'no', no bool"),
        (r"^family.*\n", "", "it has no family"),
        (r"^repository.*", 'repository = "x"', "its repository is 'x'"),
        (r"^size.*", 'size = "9"', "its size is '9', no int"),
        (r"^size.*", "size = true", "of True bytes"),
        (r"^path.*", 'path = "../x"', "'../x'"),
        (r"^path.*", 'path = "x"', "a file stands twice"),
        (r"^sha256.*", 'sha256 = "x"', "its sha256 is 'x'"),
        (r"^layers.*", 'layers = "x"', "its layers is 'x', no int"),
        (r"\A", "a = [", "Invalid"),
        (r"\A", "a = " + "[" * 3000, "nested"),
        (r"\A", "\udcff", "decode"),
    ],
)
def test_a_damaged_lock_is_told_in_one_line_and_stops_no_other_model(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], old: str, new: str, words: str
) -> None:
    folder = tmp_path / "configs/models"
    shutil.copytree(paths.root() / "configs/models", folder)
    file = folder / "step-audio-2-mini.lock"
    text = re.sub(old, new.replace("\\", r"\\"), file.read_text(), flags=re.MULTILINE)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    monkeypatch.setenv("FIRSTWORD_ROOT", str(tmp_path))
    assert main(["models", "list"]) == Exit.CONFIG
    cause, mend = capsys.readouterr().err.splitlines()
    assert f"{file} is no lock of a model: " in cause
    assert words in cause
    assert "mend: restore it" in mend
    assert models.get("qwen3-tts-0.6b-base").lock is not None
    with pytest.raises(FirstwordError, match="no model is called 'nosuch'"):
        models.resolve("nosuch")


@pytest.mark.parametrize("name", ["", "~nobody-at-all/x", "x" * 300, "a\0b", "no/such/folder"])
def test_what_is_neither_a_name_nor_a_folder(name: str) -> None:
    for ask in (models.resolve, models.describe, command.locate):
        with pytest.raises(FirstwordError, match="no model is called") as caught:
            ask(name)
        assert caught.value.code is Exit.MODEL_UNKNOWN
        assert len(caught.value.cause) < 200
