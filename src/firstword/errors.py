"""Errors that a user can act on, and the exit codes they end with.

Every expected failure is a `FirstwordError`: one line of cause, one line that mends it, one exit
code; what the operating system refuses becomes one where a command ends (`firstword.ending`). Anything else is a
defect and ends with a traceback and exit code 1.
Standard library only: this module is imported before any environment exists.
"""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every ``firstword`` command. Distinct, so that scripts can tell causes apart."""

    OK = 0
    DEFECT = 1
    USAGE = 2

    MODEL_UNKNOWN = 10
    CHECKPOINT_INCOMPLETE = 11
    CHECKSUM = 12
    DOWNLOAD = 13

    PREFLIGHT = 20
    CONFIG = 21
    DOES_NOT_FIT = 22
    NO_COMPILER = 23

    PATCHES = 30

    PORT_IN_USE = 40
    OUT_OF_MEMORY = 41
    STAGE_DIED = 42
    MISSING_CLASS = 43
    UNRESPONSIVE = 45
    START_TIMEOUT = 46

    DISK_FULL = 50
    WRONG_PYTHON = 51
    ENVIRONMENT = 52
    NO_ACCESS = 53

    NOT_READY = 60
    BAD_ANSWER = 61

    NO_READER = 141


class FirstwordError(Exception):
    """An expected failure.

    Args:
        cause: What is wrong, in one line, naming the thing.
        mend: The command or the change that mends it, in one line.
        code: The exit code of the command that fails with this.
    """

    def __init__(self, cause: str, *, mend: str, code: Exit) -> None:
        super().__init__(cause)
        self.cause = cause
        self.mend = mend
        self.code = code

    def __str__(self) -> str:
        return f"{self.cause}\n  mend: {self._typed()}"

    def as_dict(self) -> dict[str, str | int]:
        """Return the JSON form that ``--json`` prints."""
        return {"cause": self.cause, "mend": self._typed(), "code": int(self.code), "kind": self.code.name.lower()}

    def _typed(self) -> str:
        from firstword import commands  # which needs this module

        return commands.typed(self.mend)
