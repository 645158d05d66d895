"""Time from a start to the first real answer, with warm caches: each engine alone, then both together."""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from firstword.bench import machine, usage
from firstword.engine.models.folders import synthetic_folder
from firstword.errors import Exit, FirstwordError
from firstword.synthetic import command as synthetic

ENGINES = {"qwen3-tts-customvoice-synthetic": "cpu", "step-audio-2-mini-synthetic": "speech-cpu"}
# A phase ends when its words appear in the engine's output.
PHASES = (
    ("preflight", "firstword serve: checked"),
    ("imports", "[AsyncOmni] Initializing with model"),
    ("stages", "Orchestrator ready"),
    ("API", "Application startup complete"),
    ("first answer", "firstword serve: ready after"),
)
_PORT = 8191


@dataclass
class Start:
    """One engine's start. Times in seconds since its process was created, memory in bytes."""

    model: str
    process: "subprocess.Popen[bytes]"
    began: float
    phases: dict[str, float] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    cpu_seconds: float = 0.0
    memory: int = 0
    peak: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    def read(self, stream: IO[bytes]) -> None:
        """Note when each phase ends."""
        for raw in stream:
            line = raw.decode("utf-8", "replace")
            self.lines.append(line)
            for phase, words in PHASES:
                if phase not in self.phases and words in line:
                    self.phases[phase] = time.monotonic() - self.began
                    if phase == PHASES[-1][0]:
                        self.done.set()
        self.done.set()


def measure(*, runs: int, to: Path | None) -> int:
    """Measure and print; one uncounted start of each engine warms the caches."""
    for model in ENGINES:
        synthetic.make(model, synthetic_folder(model), 0, _print)
    about = machine.describe()
    _print(f"machine: {about}")
    models = list(ENGINES)
    for model in models:
        _together([model])
    plans = [[model] for model in models] + [models]
    results: dict[str, list[list[Start]]] = {" + ".join(plan): [] for plan in plans}
    for _ in range(runs):
        for plan in plans:
            results[" + ".join(plan)].append(_together(plan))
    report = {"machine": about, "runs": runs, "starts": {name: _summary(all_) for name, all_ in results.items()}}
    _table(report["starts"])  # type: ignore[arg-type]
    if to is not None:
        to.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return int(Exit.OK)


def _together(models: list[str]) -> list[Start]:
    with tempfile.TemporaryDirectory() as run:
        starts = []
        for offset, model in enumerate(models):
            began = time.monotonic()
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "firstword", "serve", model, "--shape", ENGINES[model]),
                    *("--port", str(_PORT + offset)),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=_environment(run),
            )
            start = Start(model, process, began)
            assert process.stdout is not None
            threading.Thread(target=start.read, args=(process.stdout,), daemon=True).start()
            starts.append(start)
        peak = usage.Peak([start.process.pid for start in starts])
        try:
            for start in starts:
                if not start.done.wait(900) or "first answer" not in start.phases:
                    raise FirstwordError(
                        f"{start.model} did not become ready: {''.join(start.lines[-3:])}",
                        mend="its output tells why",
                        code=Exit.NOT_READY,
                    )
            for start in starts:
                start.cpu_seconds = usage.cpu_seconds(start.process.pid)
                start.memory = usage.memory(start.process.pid)
            for pid, most in peak.stop().items():
                start = next(s for s in starts if s.process.pid == pid)
                start.peak = max(most, start.memory)
        finally:
            peak.stop()
            for start in starts:
                start.process.terminate()
            for start in starts:
                start.process.wait()
        return starts


def _environment(run: str) -> dict[str, str]:
    import os

    return {**{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}, "FIRSTWORD_RUN_DIR": run}


def _summary(runs: list[list[Start]]) -> dict[str, object]:
    def median(values: list[float]) -> float:
        return round(statistics.median(values), 1)

    engines = {}
    for index, first in enumerate(runs[0]):
        starts = [run[index] for run in runs]
        ends = {name: median([s.phases[name] for s in starts]) for name, _ in PHASES if name in first.phases}
        engines[first.model] = {
            "seconds_until": ends,
            "cpu_seconds": median([s.cpu_seconds for s in starts]),
            "memory_gb": round(statistics.median([s.memory for s in starts]) / 1e9, 2),
            "peak_gb": round(statistics.median([s.peak for s in starts]) / 1e9, 2),
        }
    all_ready = [max(s.phases["first answer"] for s in run) for run in runs]
    return {"ready": median(all_ready), "each": [round(x, 1) for x in all_ready], "engines": engines}


def _table(starts: dict[str, dict[str, object]]) -> None:
    for name, summary in starts.items():
        _print(f"\n{name}: ready after {summary['ready']} s (median; each: {summary['each']})")
        engines = summary["engines"]
        assert isinstance(engines, dict)
        for model, told in engines.items():
            until = ", ".join(f"{phase} {seconds}" for phase, seconds in told["seconds_until"].items())
            _print(f"  {model}: {until}; {told['cpu_seconds']} CPU s, {told['memory_gb']} GB (peak {told['peak_gb']})")


def _print(line: str) -> None:
    print(line, flush=True)
