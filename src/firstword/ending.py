"""How a command ends: an exit code, and for what went wrong one line of cause and one that mends it.

Standard library only. What the operating system refuses (a file that may not be read, a folder that may not be
written, a full disk) is nobody's defect, wherever it happens; it is told here, once, for every command. A reader that
goes away early (``firstword models list | head -1``) ends a command without a word and with 141, as a shell reports
any program that ``SIGPIPE`` ends.
"""

import contextlib
import errno
import io
import json
import os
import sys
from collections.abc import Callable

from firstword import paths
from firstword.errors import Exit, FirstwordError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# What lies at the path is another thing than was looked for, or cannot be read.
_WRONG_PATH = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP),
        *(errno.EIO, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.EINVAL, errno.ESPIPE, errno.ETXTBSY, errno.EFBIG),
    }
)


def run(name: str, work: Callable[[], int], *, as_json: bool = False) -> int:
    """Run a command's work and return its exit code; an expected failure is printed on stderr.

    Args:
        name: The command, as messages name it.
        work: Does it, and returns its exit code.
        as_json: Whether a failure is printed on stdout too, as one JSON object.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the names of files need not be text
    try:
        try:
            return int(work())
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # what cannot be written shows here, not after the exit code is settled
    except FirstwordError as error:
        return _told(name, error, as_json=as_json)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _forget_output()
        return int(Exit.NO_READER)
    except OSError as error:
        refusal = of_system(error)
        if refusal is None:
            raise  # a defect
        if error.filename is None:
            _forget_output()
        return _told(name, refusal, as_json=as_json)


def of_system(error: OSError) -> FirstwordError | None:
    """Return a refusal of the operating system as one of our errors; None when it tells of a defect instead."""
    where, reason = error.filename, error.strerror or str(error)
    if error.errno in _FULL:
        return FirstwordError(
            f"nothing more can be written{f' at {os.fsdecode(where)}' if where else ''}: {reason}",
            mend="free space there, or write to another disk",
            code=Exit.DISK_FULL,
        )
    if not isinstance(where, str | bytes | os.PathLike):
        return None
    path = os.fsdecode(where)
    shown = path if len(path) <= 200 else f"{path[:200]}..."
    if error.errno in _FORBIDDEN:
        mend = f"let the user with id {os.geteuid()} use it, or name another path"
    elif error.errno in _WRONG_PATH:
        mend = "put right what lies at this path, or name another one"
    else:
        return None
    return FirstwordError(f"cannot use {shown}: {reason}", mend=mend + _home(path), code=Exit.NO_ACCESS)


def _home(path: str) -> str:
    try:
        home = str(paths.home())
    except FirstwordError:
        return ""
    inside = path == home or path.startswith(home + "/") or home.startswith(path.rstrip("/") + "/")
    return "; FIRSTWORD_HOME can name a folder of your own" if inside else ""


def _told(name: str, error: FirstwordError, *, as_json: bool) -> int:
    if as_json:
        try:
            print(json.dumps({"ok": False, "error": error.as_dict()}), flush=True)
        except OSError:
            _forget_output()
    with contextlib.suppress(OSError):
        print(f"{name}: {error}", file=sys.stderr, flush=True)
    return int(error.code)


def _forget_output() -> None:
    """Send what is left in stdout's buffer nowhere: Python would try to write it at its exit, and say so."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
