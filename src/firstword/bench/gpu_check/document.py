"""The report, and its page in Markdown."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from firstword.bench.gpu_check.catalogue import CASES, NOT_CUT
from firstword.bench.gpu_check.parts import MEASURED, NOT_RUN, SKIPPED, Outcome
from firstword.bench.gpu_check.sources import SIDES
from firstword.bench.gpu_check.worker import TABLES
from firstword.bench.syncs.counting import READ, WRITE

REHEARSAL = "Rehearsal on the CPU: no figure of it is a GPU's."
_NO_BUNDLE = "no --bundle"
_WORDS = """\
# What a GPU and PyTorch alone can tell

`scripts/gpu-check` measures what the patches change on a machine that has one NVIDIA GPU, Python 3.12 or newer with
PyTorch and NumPy, and this checkout: no vLLM, no vLLM-Omni, no Docker, no network. It ends within 14 minutes
(`--budget`).

```
scripts/gpu-check --make-bundle gpu-check.zip   # once, where scripts/up has made an environment (0.4 MB)
scripts/gpu-check --bundle gpu-check.zip        # on the GPU machine
scripts/gpu-check --bundle gpu-check.zip --cpu  # anywhere: a rehearsal with small sizes
```

Without `--bundle` it measures the seed tables alone. The two wheels do as bundles too, given with `--bundle` each:
`pip download --no-deps vllm-omni==… step-audio2==…`, with the versions of `patches/checksums.json`. The report folder
(`--out`) holds `gpu-check.json` and `gpu-check.md`; `--json` prints the former.

**The seed tables**: the method that vllm-omni #1614 changed, before, after, and as its reviewer proposed, at 1 to 256
requests, as `firstword bench seed-tables` has them; the three must agree in six cases.

**The patched functions** are cut out of the released file and of the patched one by their syntax trees, with what they
need of the file and nothing else; neither file is imported. A bundle holds released files only. Each must have the
SHA-256 that `patches/checksums.json` declares, and so must what this checkout's patches make of it, or nothing is
measured. (It holds upstream's files with their licence, Apache-2.0, and is made by you; none is part of this
repository.) Both sides are called with the same random weights and inputs, of the real models' sizes, in turns:

- *equal*: all that comes out, bit for bit. Where the release differs from itself, that is told.
- *host*: median until the call returns. *CUDA events*: median between two events around it.
- *host behind queued work*: the same with about 1 ms of other work queued before it. A call that waits for the device
  waits for that too; one that does not, does not.
- *reads*, *writes*: how often the host waits, counted without a GPU and with small sizes, as in [syncs](syncs.md).
  *CUDA reports*: what `torch.cuda.set_sync_debug_mode` reports of one call; it does not tell reads from writes.
- *MB held*: memory that weights, buffers and inputs hold on the GPU.

All is measured in another process; a part that crashes or hangs costs itself alone. One that fails, or that the budget
does not reach, is listed, as is what cannot be cut. A difference or a failure ends with 1, a budget used up with 60.

What stands in for the rest of the engine is said for each function: times are of the function, not of a request.
"""


def report(
    about: Mapping[str, Any],
    measured: Mapping[str, Outcome],
    counted: Mapping[str, Outcome],
    *,
    manifest: Mapping[str, Any],
    series: Sequence[str],
    rehearsal: bool,
    seconds: tuple[float, float],
) -> dict[str, Any]:
    """Return all that was found, as JSON.

    Args:
        about: The machine, versions and commit, and the GPU.
        measured: Each part's times and results.
        counted: Each part's waits, counted without a GPU.
        manifest: Where the files came from.
        series: Names of all patches.
        rehearsal: Whether it ran on the CPU.
        seconds: The budget, and what was used of it.
    """
    cases = [_case(name, measured.get(name), counted.get(name)) for name in CASES]
    tables = _tables(measured[TABLES], counted[TABLES])
    entries = [tables, *cases]
    late = [outcome for outcomes in (measured, counted) for outcome in outcomes.values() if outcome.state == NOT_RUN]
    return {
        "kind": "gpu-check",
        "rehearsal": rehearsal,
        **({"note": REHEARSAL} if rehearsal else {}),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        **about,
        "budget_seconds": seconds[0],
        "seconds": round(seconds[1], 1),
        "complete": not late,
        "faults": [fault for entry in entries for fault in _faults(entry)],
        TABLES: tables,
        "cases": cases,
        "no function is cut for": NOT_CUT,
        "other patches": [
            name for name in series if name not in NOT_CUT and not any(name in c.patches for c in CASES.values())
        ],
        "files": dict(manifest),
    }


def _case(name: str, measured: Outcome | None, counted: Outcome | None) -> dict[str, Any]:
    case = CASES[name]
    entry: dict[str, Any] = {"name": name, "what": case.what, "patches": list(case.patches)}
    entry["stands_in"] = case.stands_in
    if measured is None or counted is None:
        return {**entry, "state": NOT_RUN, "why": _NO_BUNDLE}
    entry |= {"state": measured.state, **({"why": measured.why} if measured.why else {}), **measured.result}
    return {**entry, "counted": _counted(counted)}


def _counted(counted: Outcome) -> dict[str, Any]:
    return {"state": counted.state, **({"why": counted.why} if counted.why else {}), **counted.result}


def _tables(measured: Outcome, counted: Outcome) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": TABLES, "state": measured.state, **({"why": measured.why} if measured.why else {})}
    entry |= {name: value for name, value in measured.result.items() if name not in ("date", "machine", "torch")}
    for row in entry.get("rows", ()):
        row["waits"] = counted.result.get(f"{row['positions']} {row['requests']}")
    state = {"state": counted.state, **({"why": counted.why} if counted.why else {})}
    return {**entry, "counted": state}


def _faults(entry: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a part: it failed, or its two sides differ."""
    found = []
    name, counted = entry["name"], entry.get("counted", {})
    for state, told in ((entry["state"], entry), (counted.get("state"), counted)):
        if state not in (MEASURED, NOT_RUN, SKIPPED, None):
            found.append(f"{name}: {state}: {told['why']}")
    if entry.get("equal") is False and entry["release_repeats_itself"]:
        found.append(f"{name}: the patched file's results are not the release's (by {entry['difference']})")
    found += [
        f"{name}: counted, the results are not those of a plain run ({side})"
        for side in SIDES
        if counted.get(side, {}).get("equal to plain CPU") is False
    ]
    return found


def page(told: Mapping[str, Any]) -> str:
    """Return the page."""
    machine, gpu = told["machine"], told["gpu"]
    on = f"{gpu['name']}, driver {gpu['driver']}, CUDA {gpu['cuda']}, " if gpu else ""
    note = f"**{told['note']}**\n\n" if told["rehearsal"] else ""
    complete = "" if told["complete"] else " **The budget was used up before the end.**"
    parts = [
        f"{note}{told['date']}: {on}{machine['cores']} cores ({machine['processor']}), load {machine['load']:.1f}, "
        f"Python {machine['python']}, torch {told['torch']}, commit {told['commit']}, "
        f"patches {told['series_sha256'][:12]}; {told['seconds']:.0f} s of "
        f"{told['budget_seconds']:.0f}.{complete}\n",
        *_functions(told["cases"], on_gpu=bool(gpu)),
        "### `build_attn_metadata` before and after #1614\n",
        *_seed_tables(told[TABLES]),
        "### Not cut\n",
        "\n".join(f"- {patch.removesuffix('.patch')}: {why}" for patch, why in told["no function is cut for"].items()),
        f"- the other {len(told['other patches'])} change which requests are answered and how, not the device's work",
    ]
    if told["faults"]:
        parts += ["\n### Faults\n", "\n".join(f"- {fault}" for fault in told["faults"])]
    return "\n".join(parts) + "\n"


def whole(told: Mapping[str, Any]) -> str:
    """Return the page of docs/: how to run it, what it measures, and the last report."""
    ran = "" if told["gpu"] else "**It has not been run on a GPU.**\n\n"
    return f"{_WORDS}\n{ran}## {'A rehearsal' if told['rehearsal'] else 'The last run'}\n\n{page(told)}"


def _functions(cases: list[dict[str, Any]], *, on_gpu: bool) -> list[str]:
    """Return the table of the cases, and what it leaves out."""
    if all(case.get("why") == _NO_BUNDLE for case in cases):
        return ["### The patched functions\n", f"Not run: {_NO_BUNDLE}.\n"]
    times = ["host, µs", "CUDA events, µs", "host behind queued work, µs"] if on_gpu else ["µs"]
    heads = ["called", "equal", *times, "reads", "writes", *(["CUDA reports", "MB held"] if on_gpu else [])]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    left_out = []
    for case in cases:
        if case["state"] == MEASURED:
            lines.append(f"| {' | '.join(_cells(case, on_gpu=on_gpu))} |")
        else:
            left_out.append(f"- {case['name']}: {case['state']}: {case['why']}")
        counted = case.get("counted", {})
        if counted.get("state") not in (MEASURED, None) and case["state"] == MEASURED:
            left_out.append(f"- {case['name']}: waits {counted['state']}: {counted['why']}")
    text = ["### The patched functions\n", "\n".join(lines) + "\n"]
    if left_out:
        text += ["Left out:\n", "\n".join(left_out) + "\n"]
    what = [
        f"- {case['name']}: {case['what']}{_sizes(case)}; {_patches(case)}. Stands in: {case['stands_in']}."
        for case in cases
    ]
    return [*text, "\n".join(what) + "\n"]


def _patches(case: Mapping[str, Any]) -> str:
    return ", ".join(_short(patch) for patch in case["patches"])


def _short(patch: str) -> str:
    folder, _, file = patch.partition("/")
    return f"{folder}/{file.partition('-')[0]}"


def _sizes(case: Mapping[str, Any]) -> str:
    sizes = ", ".join(f"{name} {value}" for name, value in case.get("sizes", {}).items())
    return f" ({sizes})" if sizes else ""


def _cells(case: Mapping[str, Any], *, on_gpu: bool) -> list[str]:
    times, counted = case["microseconds"], case["counted"]
    equal = "yes" if case["equal"] else "**no**"
    if not case["release_repeats_itself"]:
        equal += ", nor the release itself"
    cells = [case["name"], equal]
    cells += [_pair(times[name]) for name in (("host", "events", "queued") if on_gpu else ("done",))]
    for kind in (READ, WRITE):
        waits = {side: counted[side]["totals"][kind] for side in SIDES} if counted["state"] == MEASURED else None
        cells.append("?" if waits is None else _pair(waits))
    if on_gpu:
        cells.append(_pair({side: told["totals"][READ] for side, told in case["cuda_reports"].items()}))
        cells.append(_pair(case["held_mb"]))
    return cells


def _pair(values: Mapping[str, Any]) -> str:
    stock, patched = (f"{values[side]:,.0f}" if values[side] >= 100 else str(values[side]) for side in SIDES)
    return stock if stock == patched else f"{stock} → {patched}"


def _seed_tables(tables: Mapping[str, Any]) -> list[str]:
    from firstword.bench.seed_tables import command

    if tables["state"] != MEASURED:
        return [f"{tables['state']}: {tables['why']}\n"]
    same = "; ".join(f"{name}: {'yes' if value else '**no**'}" for name, value in tables["equal"].items())
    return ["\n".join(command.lines(dict(tables))) + "\n", f"The three forms agree: {same}.\n"]
