"""The page and the picture of one run."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from firstword.bench.gateway import contenders

MATPLOTLIB = "matplotlib==3.10.6"
_DAY = "2026-08-04T00:00:00Z"
_COLUMNS = {
    "first_p50_ms": "first byte p50, ms",
    "first_p99_ms": "p99",
    "late_p99_ms": "chunk's way p99, ms",
    "late_most_ms": "most",
    "late_by_a_period": "late by a period",
    "requests_per_second": "requests/s",
    "cpu_seconds_per_audio_hour": "CPU s per audio hour",
    "memory_per_stream_mb": "MB per stream",
}


def made(report: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: dict[str, Any]) -> Iterator[str]:
    about = report["machine"]
    yield "# What the gateway costs"
    yield ""
    yield (
        f"`firstword bench gateway --json docs/benchmarks/gateway.json`: {about['cores']} cores "
        f"({about['processor']}), Python {about['python']}, load {about['load']:.1f} before. "
        "One run against one scripted upstream that sends "
        f"{report['seconds']:g} s of 24 kHz samples in chunks of {report['period_ms']:g} ms; clients, contender and "
        "upstream share the machine. Requests/s are of short answers, as many at a time."
    )
    for name, one in report["contenders"].items():
        if "absent" in one:
            yield ""
            yield f"Not measured: {name}; {one['absent']}"
    yield ""
    yield f"| streams | | added to the first byte p50, ms | p99 | {' | '.join(_COLUMNS.values())} |"
    yield "|---|---|---|---|" + "---|" * len(_COLUMNS)
    counts: dict[str, Any] = next((one["streams"] for one in report["contenders"].values() if "streams" in one), {})
    for count in counts:
        for name, one in report["contenders"].items():
            told = one.get("streams", {}).get(count)
            if told is not None:
                added = report["added"].get(name, {}).get(count, {})
                cells = [str(added.get("p50", "")), str(added.get("p99", "")), *(str(told[key]) for key in _COLUMNS)]
                yield f"| {count} | {name} {one['version']} | {' | '.join(cells)} |"
    yield ""
    yield "CPU milliseconds to encode one second of sound:"
    yield ""
    yield "| format | gateway | ffmpeg |"
    yield "|---|---|---|"
    for name, told in report["encoding"].items():
        theirs = "" if told["ffmpeg"] is None else f"{1000 * told['ffmpeg']:.2f}"
        yield f"| {name} | {1000 * told['gateway']:.2f} | {theirs} |"


def draw(report: dict[str, Any], to: Path) -> None:
    """Draw the first byte and the ways of chunks, in an environment of its own that has a plotter.

    Raises:
        AbsentError: It cannot be made.
    """
    python = contenders.made("bench-plot", [MATPLOTLIB], _DAY) / "bin/python"
    subprocess.run([str(python), "-c", _DRAW, str(to)], input=json.dumps(report), text=True, check=True)


_DRAW = """
import json, sys
import matplotlib
matplotlib.use("agg")
from matplotlib import pyplot as plot
report = json.load(sys.stdin)
found = {name: one["streams"] for name, one in report["contenders"].items() if "streams" in one}
figure, axes = plot.subplots(1, 3, figsize=(12, 4))
panels = (("first_p99_ms", "first byte, p99 (ms)"), ("late_p99_ms", "way of a chunk, p99 (ms)"),
          ("requests_per_second", "requests/s"))
for axis, (key, title) in zip(axes, panels):
    counts = list(next(iter(found.values())))
    width = 0.8 / len(found)
    for index, (name, streams) in enumerate(found.items()):
        places = [place + index * width for place in range(len(counts))]
        axis.bar(places, [streams[count][key] for count in counts], width, label=name)
    axis.set_xticks([place + 0.4 - width / 2 for place in range(len(counts))], counts)
    axis.set_xlabel("streams at a time")
    axis.set_yscale("log")
    axis.set_title(title)
figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncols=len(found))
figure.tight_layout(rect=(0, 0.08, 1, 1))
figure.savefig(sys.argv[1], dpi=110)
"""
