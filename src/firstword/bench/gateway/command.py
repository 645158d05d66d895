"""``firstword bench gateway``: every contender in turn, each number of streams, in one run."""

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstword.bench import machine, usage
from firstword.bench.gateway import chunks, client, contenders, encoding, page
from firstword.errors import Exit

# Requests whose few chunks come at once: what is left is the proxy's own work.
_SHORT_CHUNKS = 3


@dataclass(frozen=True)
class Load:
    """What each contender gets.

    Attributes:
        seconds: Of sound in each stream.
        rounds: Streams that each client takes one after the other; one stream alone takes five times as many.
        streams: How many at a time.
    """

    seconds: float
    rounds: int
    streams: tuple[int, ...]


def measure(load: Load, *, names: list[str], to: Path | None) -> int:
    """Measure and print; with ``to``, write ``to`` (JSON), its page and its picture beside it.

    Args:
        load: What each gets.
        names: Which contenders; none for all.
        to: The JSON file.
    """
    about = machine.describe()
    report: dict[str, Any] = {
        "machine": about,
        "seconds": load.seconds,
        "rounds": load.rounds,
        "period_ms": 1000 * chunks.PERIOD,
        "contenders": {},
        "encoding": encoding.measure(30.0),
    }
    with contenders.upstream() as upstream:
        for name, starting in contenders.ALL.items():
            if not names or name in names:
                report["contenders"][name] = _one(name, starting, upstream, load)
    report["added"] = _added(report["contenders"])
    print(page.made(report))
    if to is not None:
        to.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        to.with_suffix(".md").write_text(page.made(report), encoding="utf-8")
        page.draw(report, to.with_suffix(".png"))
    return int(Exit.OK)


def _one(name: str, starting: contenders.Starting, upstream: str, load: Load) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            with starting(upstream, Path(folder)) as contender:
                _say(f"{name}: {contender.version or 'as it is here'}")
                return {"version": contender.version, **_streams(contender, load)}
        except contenders.AbsentError as error:
            _say(f"{name}: {error}")
            return {"absent": str(error)}


def _streams(contender: contenders.Contender, load: Load) -> dict[str, Any]:
    url, root = contender.url, contender.process
    client.ask(url, at_a_time=4, rounds=5, count=_SHORT_CHUNKS, period=0)
    idle = usage.memory(root) if root else 0
    count = max(1, round(load.seconds / chunks.PERIOD))
    found: dict[str, Any] = {"memory_idle_mb": round(idle / 1e6, 1), "streams": {}}
    for at_a_time in load.streams:
        peak = usage.Peak([root]) if root else None
        before = usage.cpu_seconds(root) if root else 0.0
        each = 5 * load.rounds if at_a_time == 1 else load.rounds
        seen = client.ask(url, at_a_time=at_a_time, rounds=each, count=count, period=chunks.PERIOD)
        used = usage.cpu_seconds(root) - before if root else 0.0
        most = peak.stop()[root] if peak and root else 0
        told = seen.summary()
        told["cpu_seconds_per_audio_hour"] = round(used / (len(seen.late) * chunks.PERIOD) * 3600, 1)
        told["memory_per_stream_mb"] = round(max(0, most - idle) / at_a_time / 1e6, 3)
        short = _short(url, at_a_time)
        told["requests_per_second"] = short.summary()["requests_per_second"]
        found["streams"][str(at_a_time)] = told
        _say(f"  {at_a_time}: {told}")
    return found


def _short(url: str, at_a_time: int) -> client.Seen:
    """Return the rate of short requests, measured over two seconds and more."""
    began, rounds = time.monotonic(), 4
    while True:
        seen = client.ask(url, at_a_time=at_a_time, rounds=rounds, count=_SHORT_CHUNKS, period=0)
        if seen.seconds > 2 or time.monotonic() - began > 30:
            return seen
        rounds *= 4


def _added(found: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Return what each adds to the first byte of the same load without a proxy, in ms."""
    base = found.get("direct", {}).get("streams", {})
    return {
        name: {
            at_a_time: {
                share: round(told[f"first_{share}_ms"] - base[at_a_time][f"first_{share}_ms"], 2)
                for share in ("p50", "p99")
            }
            for at_a_time, told in one["streams"].items()
            if at_a_time in base
        }
        for name, one in found.items()
        if "streams" in one and name != "direct"
    }


def _say(line: str) -> None:
    print(line, flush=True)
