"""docs/troubleshooting.md says what was recorded, and the record is of the locked versions."""

import datetime
import re

from firstword import paths
from firstword.engine.preflight.versions import read_lock
from firstword.engine.stock_failures import document
from firstword.engine.stock_failures.observe import Seen
from firstword.engine.stock_failures.rows import ROWS
from firstword.errors import Exit

RECORD = document.read()


def seen(key: str) -> Seen:
    return Seen(**RECORD["rows"][key]["stock"])


def test_the_page_holds_the_recorded_table():
    page = document.page_path().read_text(encoding="utf-8")
    assert page == document.page_with(document.table(RECORD), page), "run scripts/stock-failures --shown"
    assert document.table(RECORD).count("\n") == len(ROWS) + 1


def test_the_record_holds_every_row_its_date_and_the_locked_versions():
    assert {row.key for row in ROWS} <= RECORD["rows"].keys()
    assert datetime.date.fromisoformat(RECORD["date"])
    pins = read_lock(paths.root() / "docker/requirements/engine-cpu.txt")
    assert RECORD["versions"] == {name: pins[name] for name in RECORD["versions"]}


def test_what_makes_the_failures_misleading():
    """The rows that the page's text speaks of."""
    assert "failed to be inspected" in seen("librosa").last_words
    assert seen("librosa").lines_above > 40
    assert "Failed core proc(s)" in seen("librosa-warm").last_words
    assert "Failed core proc(s)" in seen("s3tokenizer-warm").last_words
    assert "step-audio2" not in seen("step-audio2").true_cause
    for key in ("cosyvoice2", "flow.pt"):
        assert (seen(key).health, seen(key).stage, seen(key).after) == ("200", "request", "exited")
    assert (seen("av").health, seen("av").stage) == ("200", "request")
    assert seen("av").answer == "HTTP 500 No package metadata was found for vllm"


def test_the_page_lists_every_exit_code():
    page = document.page_path().read_text(encoding="utf-8")
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page, flags=re.MULTILINE)}
    assert listed == {int(code) for code in Exit}
