"""The table and the page of what was served."""

from collections.abc import Iterator
from typing import Any

_HEAD = (
    "| model | workload | at once | requests/s | audio s/s | first p50, s | first p95, s | RTF | underruns | errors "
    "| CPU s | peak GB |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
)
_ABOUT = """\
Each figure is stock → firstword: medians over the pairs (underruns and errors: sums). Stock is the released vLLM-Omni
0.26.0, unpatched, started with its own entry point on upstream's deploy config; only what the device decides (devices,
memory, lengths, eager mode, one process for each stage) is firstword's, or it would not run here. Both run on the CPU
through firstword's platform plugin. Both are up all the time and answer in turns; which begins changes with each pair.
A round sends twice as many requests as are sent at once. *First* is the time to the first bytes of audio where it is
streamed, else to the whole answer; *RTF* a request's seconds for each second of its audio; an *underrun* a stream whose
audio ran out before its next chunk came. An *error* is a request without an answer; the other figures are of those
that were answered. The checkpoints are synthetic, small and with random weights: figures say how requests are served,
not how fast a published model is.
"""


def table(report: dict[str, Any]) -> Iterator[str]:
    """Yield the table's lines."""
    yield from _HEAD
    for family, told in report["models"].items():
        for workload, counts in told["workloads"].items():
            for together, sides in counts.items():
                one, other = (sides[name]["median"] for name in ("stock", "firstword"))

                def cell(name: str, digits: int, scale: float = 1.0, one: Any = one, other: Any = other) -> str:
                    return " → ".join(f"{side[name] * scale:.{digits}f}" for side in (one, other))

                cells = [
                    cell("requests_per_second", 2),
                    cell("audio_per_second", 2),
                    cell("first_p50", 2),
                    cell("first_p95", 2),
                    cell("real_time_factor", 2),
                    cell("underruns", 0),
                    cell("errors", 0),
                    cell("cpu_seconds", 1),
                    cell("memory", 1, 1e-9),
                ]
                yield f"| {family} | {workload} | {together} | " + " | ".join(cells) + " |"


def page(report: dict[str, Any], plot: str | None) -> str:
    """Return the page."""
    about = report["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    lines = [
        "# The same requests, stock and firstword",
        "",
        f"`firstword bench serve`, {report['date']}: {about['cores']} cores ({about['processor']}), "
        f"{about['memory_gb']} GB, load {about['load']:.2f} before, Python {about['python']}, {versions}; "
        f"{report['pairs']} pair(s).",
        "",
        *table(report),
        "",
        _ABOUT,
    ]
    if plot is not None:
        lines.append(f"![requests per second by requests at once, stock and firstword]({plot})\n")
    return "\n".join(lines)
