"""What a check says: one finding for each cause."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from firstword import commands, ending
from firstword.errors import Exit


@dataclass(frozen=True)
class Finding:
    """One thing that would fail later, found now.

    Args:
        check: The check that found it, e.g. ``modules``.
        subject: The thing concerned: a module, a distribution, a file, a device.
        cause: What is wrong with it, in one line.
        later: What it would have looked like in stock vLLM-Omni 0.26.0.
        mend: The command or the change that mends it.
        code: The exit code when this is the only finding.
    """

    check: str
    subject: str
    cause: str
    later: str
    mend: str
    code: Exit

    def __str__(self) -> str:
        return f"[{self.check}] {self.cause}\n  later: {self.later}\n  mend:  {commands.typed(self.mend)}"

    def without_later(self) -> str:
        """Return the text without the line that findings of one kind share."""
        return f"[{self.check}] {self.cause}\n  mend:  {commands.typed(self.mend)}"

    def as_dict(self) -> dict[str, str | int]:
        """Return the JSON form that ``--json`` prints."""
        mend = commands.typed(self.mend)
        return asdict(self) | {"mend": mend, "code": int(self.code), "kind": self.code.name.lower()}


def told(check: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield a check's findings, and where a file or folder may not be looked at, one that says so."""
    try:
        yield from findings
    except OSError as error:
        refusal = ending.of_system(error)
        if refusal is None:
            raise  # a defect
        later = "the same error, without a name for it, from whatever looks there first"
        yield Finding(check, os.fsdecode(error.filename or check), refusal.cause, later, refusal.mend, refusal.code)


def exit_code(findings: Sequence[Finding]) -> Exit:
    """Return the exit code for all findings together: their common one, or `Exit.PREFLIGHT` for a mixture."""
    codes = {finding.code for finding in findings}
    if not codes:
        return Exit.OK
    return codes.pop() if len(codes) == 1 else Exit.PREFLIGHT
