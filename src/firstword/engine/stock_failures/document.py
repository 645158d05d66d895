"""docs/stock-failures.json and the table in docs/troubleshooting.md that is made from it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firstword import paths
from firstword.engine.stock_failures.observe import Seen
from firstword.engine.stock_failures.rows import ROWS, Row

BEGIN = "<!-- table: made by scripts/stock-failures from stock-failures.json -->"
END = "<!-- end of table -->"
_WIDE = 240


def record_path() -> Path:
    """Return where the record is."""
    return paths.root() / "docs" / "stock-failures.json"


def page_path() -> Path:
    """Return the page that holds the table."""
    return paths.root() / "docs" / "troubleshooting.md"


def read() -> dict[str, Any]:
    """Return the record; an empty one where there is none yet."""
    try:
        record: dict[str, Any] = json.loads(record_path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"rows": {}}
    return record


def write(record: Mapping[str, Any]) -> None:
    """Write the record, its rows in the table's order."""
    order = {row.key: at for at, row in enumerate(ROWS)}
    rows = dict(sorted(record["rows"].items(), key=lambda item: order.get(item[0], -1)))
    record_path().write_text(json.dumps({**record, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def table(record: Mapping[str, Any]) -> str:
    """Return the table: missing, what stock shows, what firstword shows before an engine starts."""
    lines = [
        "| missing | when it shows | /health before | stock vLLM-Omni's last words | the true cause in its log | "
        "firstword preflight |",
        "|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        seen = record["rows"].get(row.key)
        if seen:
            lines.append(_line(row, Seen(**seen["stock"]), seen["firstword"]))
    return "\n".join(lines)


def page_with(table_text: str, page: str) -> str:
    """Return the page with its table replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table_text}\n\n{END}{after}"


def _line(row: Row, seen: Seen, shows: str) -> str:
    when = f"at start, {seen.seconds} s" if seen.stage == "start" else "first request"
    words = _code(seen.last_words)
    if seen.stage == "request":
        words = _code(seen.answer) + (", then the server exits" if seen.after == "exited" else "")
    cause = _code(seen.true_cause) if seen.true_cause else ""
    if seen.stage == "start":
        cause = f"{cause}, {seen.lines_above} lines higher" if seen.lines_above else "the same line"
    if seen.stage == "none":
        when, words = "never", "nothing"
    return f"| {row.missing} | {when} | {seen.health} | {words} | {cause} | {_escape(shows)} |"


def _code(text: str) -> str:
    text = " ".join(text.split())
    text = text if len(text) <= _WIDE else text[: _WIDE - 1] + "…"
    return f"`{_escape(text.replace('`', ''))}`"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
