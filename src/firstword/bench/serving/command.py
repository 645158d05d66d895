"""``firstword bench serve``: the release and firstword answer the same requests, in turns, on one machine."""

import contextlib
import dataclasses
import datetime
import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from firstword import paths
from firstword.bench import machine
from firstword.bench.serving import page, plot
from firstword.bench.serving.asking import WORKLOADS, Round, ask, medians
from firstword.bench.serving.sides import Side, fitted, started
from firstword.bench.syncs.command import versions
from firstword.engine import config as configs
from firstword.engine.models.folders import synthetic_folder
from firstword.errors import Exit, FirstwordError
from firstword.patching import build_tree, load_series
from firstword.patching.environment import find_site_packages
from firstword.synthetic import command as synthetic

MODELS = {
    "qwen3-tts": ("qwen3-tts-customvoice-synthetic", "cpu"),
    "step-audio-2": ("step-audio-2-mini-synthetic", "speech-cpu"),
}
_PORTS = {"stock": 8291, "firstword": 8292}
_EACH = 2  # requests of a round, for each that is sent at once


def measure(
    *, families: Sequence[str], together: Sequence[int], pairs: int, to: Path | None, doc: Path | None, png: Path | None
) -> int:
    """Measure, print the table, and write what is asked for.

    Both engines of a model run all the time, one answering while the other rests; which begins changes with each pair.

    Raises:
        FirstwordError: An engine did not start; no such family.
    """
    unknown = sorted(set(families) - set(MODELS))
    if unknown or min((pairs, *together)) < 1:
        raise FirstwordError(
            f"cannot measure {', '.join(unknown) or 'less than one request, or pair'}",
            mend=f"there are {', '.join(MODELS)}; pairs and requests at once are 1 or more",
            code=Exit.USAGE,
        )
    report: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine.describe(),
        "versions": versions(),
        "pairs": pairs,
        "models": {family: _family(family, together, pairs) for family in families or MODELS},
    }
    _print("\n" + "\n".join(page.table(report)))
    if to is not None:
        to.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if doc is not None:
        doc.write_text(page.page(report, png.name if png is not None else None), encoding="utf-8")
    if png is not None:
        plot.draw(report, png)
    return int(Exit.OK)


def _family(family: str, together: Sequence[int], pairs: int) -> dict[str, Any]:
    model, shape = MODELS[family]
    checkpoint = synthetic_folder(model)
    synthetic.make(model, checkpoint, 0, _print)
    series = load_series(paths.root() / "patches")
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tree = build_tree(scratch / "tree", find_site_packages(series.versions), series, upto="stock")
        theirs = scratch / "stock.yaml"
        theirs.write_text(yaml.safe_dump(fitted(family, shape), sort_keys=False), encoding="utf-8")
        sides = []
        for name, config, packages in (
            ("stock", theirs, tree),
            ("firstword", configs.load(family, shape).path, None),
        ):
            _print(f"{family}: starting {name}")
            folder = scratch / name
            folder.mkdir()
            sides.append(
                stack.enter_context(
                    started(name, checkpoint, config=config, port=_PORTS[name], tree=packages, scratch=folder)
                )
            )
        return {
            "configs": {side.name: _digest(side) for side in sides},
            "workloads": {
                workload: {str(count): _pairs(family, workload, sides, count, pairs) for count in together}
                for workload in WORKLOADS[family]
            },
        }


def _pairs(family: str, workload: str, sides: list[Side], together: int, pairs: int) -> dict[str, Any]:
    """Return medians and each round of both sides."""
    asked = WORKLOADS[family][workload]
    rounds: dict[str, list[Round]] = {side.name: [] for side in sides}
    for side in sides:  # what only a first request costs
        ask(side, asked, 1, 1)
    for pair in range(pairs):
        for side in sides if pair % 2 == 0 else reversed(sides):
            rounds[side.name].append(ask(side, asked, together, _EACH * together))
            last = rounds[side.name][-1]
            _print(
                f"{family}, {workload}, {together} at once, pair {pair + 1}, {side.name}: "
                f"{last.requests_per_second:.2f} requests/s, first {last.first_p50:.2f} s, {last.errors} errors"
            )
    return {
        name: {"median": medians(found), "rounds": [dataclasses.asdict(one) for one in found]}
        for name, found in rounds.items()
    }


def _digest(side: Side) -> dict[str, str]:
    return {"sha256": hashlib.sha256(side.config.encode()).hexdigest(), "text": side.config}


def _print(line: str) -> None:
    print(line, flush=True)
