"""The generated tables of docs/models.md.

    python -m firstword.engine.models.tables      rewrite them

Each stands between two marks, ``<!-- table: NAME -->`` and ``<!-- end -->``; a test compares them with the code.
"""

import re
from pathlib import Path

from firstword import paths
from firstword.engine import config as configs
from firstword.engine.config.geometry import Geometry
from firstword.engine.config.memory import gib
from firstword.engine.models import catalog, locks

_MARK = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

# The largest published model of each family: what a shape must hold.
_LARGEST = {"qwen3-tts": "qwen3-tts-1.7b-base", "step-audio-2": "step-audio-2-mini"}


def models() -> str:
    """Return the table of published models."""
    rows = [["Name", "Repository", "Revision", "GB", "Licence"]]
    for name in locks.names():
        lock = locks.load(name)
        size = f"{lock.size / 1e9:.2f}" + ("" if lock.complete else " and a few MB")
        rows.append([f"`{name}`", lock.repository, f"`{lock.revision[:12]}`", size, lock.licence])
    return _table(rows)


def synthetic() -> str:
    """Return the table of synthetic checkpoints."""
    rows = [["Name", "Family", "Kind"]]
    rows += [[f"`{name}`", family, kind] for name, (family, kind) in catalog.SYNTHETIC.items()]
    return _table(rows)


def memory() -> str:
    """Return the table of what each shape takes, for the largest published model of its family."""
    rows = [["Family", "Shape", "Takes (computed, not run)", "KV cache of stage 0, tokens", "Requests at once"]]
    for family, name in _LARGEST.items():
        for shape in configs.shapes(family):
            plan = configs.memory_plan(configs.load(family, shape), geometry(name))
            kind = "GPU" if plan.config.device == "cuda" else "RAM"
            takes = ", ".join(
                f"{gib(plan.on(index))} {kind}" + (f" {index}" if kind == "GPU" else "") for index in plan.devices
            )
            requests = plan.config.stages[0].settings["max_num_seqs"]
            rows.append([family, f"`{shape}`", takes, str(plan.kv_tokens), str(requests)])
    return _table(rows)


def geometry(name: str) -> Geometry:
    """Return a published model's sizes without having it."""
    lock = locks.load(name)
    return configs.of_sizes(lock.family, lock.architecture, {path: file.size for path, file in lock.files.items()})


TABLES = {"models": models, "synthetic": synthetic, "memory": memory}


def fill(text: str) -> str:
    """Return a document with its tables as the code would write them now."""
    return _MARK.sub(lambda found: f"{found[1]}{TABLES[found['name']]()}{found[3]}", text)


def _table(rows: list[list[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)


def document() -> Path:
    """Return the document that holds the tables."""
    return paths.root() / "docs" / "models.md"


if __name__ == "__main__":
    document().write_text(fill(document().read_text()))
