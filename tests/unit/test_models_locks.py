"""The shipped locks: whole, consistent with one another, and what the catalogue and the documents say."""

import re

import pytest

from firstword.engine import config as configs
from firstword.engine import models
from firstword.engine.models import catalog, checkpoint, locks, tables
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
