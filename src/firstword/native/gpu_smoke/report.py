"""The report folder of a run. Standard library only."""

import datetime
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firstword import documents
from firstword.errors import Exit, FirstwordError

_OURS = "report.json"


class Report:
    """What a run found, in one folder.

    Args:
        folder: Made; one that holds an older report is emptied.
        rehearsal: Whether the weights are made up, so that the figures say nothing of a GPU.

    Raises:
        FirstwordError: The folder holds something else.

    Attributes:
        folder: Its absolute path.
        rehearsal: As given.
    """

    def __init__(self, folder: Path, *, rehearsal: bool) -> None:
        self.folder, self.rehearsal = folder.resolve(), rehearsal
        if self.folder.exists() and any(self.folder.iterdir()):
            if not (self.folder / _OURS).exists():
                raise FirstwordError(
                    f"{self.folder} is not empty and holds no {_OURS}",
                    mend="name another folder with --out",
                    code=Exit.USAGE,
                )
            shutil.rmtree(self.folder)
        (self.folder / "logs").mkdir(parents=True)
        self._step: str | None = None
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        # A run that is killed has not passed.
        self._document: dict[str, Any] = {
            "ok": False,
            "rehearsal": rehearsal,
            "started_at": now,
            "failure": {"step": None, "cause": "it has not ended", "mend": "", "code": int(Exit.DEFECT)},
            "seconds": {},
            "figures": {},
        }
        self._write()

    def note(self, name: str, value: object) -> None:
        """Add a fact."""
        self._document[name] = value
        self._write()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step, and remember which one failed."""
        began = time.monotonic()
        failed, self._step = self._step, self._step or name
        try:
            yield
            self._step = failed
        finally:
            self._document["seconds"][name] = round(time.monotonic() - began, 1)
            self._write()

    def take_suite(self, file: Path) -> None:
        """Take the suite's counts and figures from its smoke.json, which a suite that broke off has not written."""
        try:
            results = documents.read_json(file)["results"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        outcomes = [result["outcome"] for result in results]
        self._document["checks"] = {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)}
        figures: dict[str, Any] = {}
        for result in results:
            if result["figures"]:
                figures.setdefault(result["model"], {})[result["check"]] = result["figures"]
        self._document["figures"] = figures
        self._write()

    def end(self, error: BaseException | None) -> None:
        """Write how it ended."""
        if error is None:
            self._document |= {"ok": True, "failure": None}
        elif isinstance(error, FirstwordError):
            self._document["failure"] = {"step": self._step, **error.as_dict()}
        else:
            interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
            cause = "interrupted" if interrupted else f"{type(error).__name__}: {error}"
            self._document["failure"] = {"step": self._step, "cause": cause, "mend": "", "code": int(Exit.DEFECT)}
        self._write()

    def told(self) -> str:
        """Return the figures and where the rest is, for people."""
        lines = [""]
        for model, checks in self._document["figures"].items():
            for check, figures in checks.items():
                lines.append(f"{model}  {check}: {', '.join(f'{k} {v}' for k, v in figures.items())}")
        if self.rehearsal:
            lines.append("a rehearsal: made-up weights on a CPU, so the figures say nothing of a GPU")
        return "\n".join([*lines, f"report: {self.folder / _OURS}"])

    def _write(self) -> None:
        text = json.dumps(self._document, indent=1)
        (self.folder / _OURS).write_text(f"{text}\n", encoding="utf-8")
