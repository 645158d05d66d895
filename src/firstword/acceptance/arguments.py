"""What ``probe``, ``smoke`` and ``serve`` are given on the command line, judged before a server is asked anything."""

from pathlib import Path

from firstword import documents
from firstword.errors import Exit, FirstwordError

LONGEST = 1e6  # seconds; sockets take no more than 24 days


def require_seconds(option: str, value: float, least: float) -> None:
    """Refuse a time that no clock can wait for.

    Raises:
        FirstwordError: It is less than ``least``, more than `LONGEST`, or no number.
    """
    if not least <= value <= LONGEST:  # neither does NaN
        raise FirstwordError(
            f"{option} is {value:g} s", mend=f"pass {option} with {least:g} to {LONGEST:g} seconds", code=Exit.USAGE
        )


def read_recording(path: Path) -> bytes:
    """Return a recording to send.

    Raises:
        FirstwordError: It cannot be read, or is empty.
    """
    fault = documents.state(path)
    try:
        if fault is None:
            return path.read_bytes()
    except OSError as error:
        fault = f"cannot be read ({error.strerror})"
    raise FirstwordError(f"the recording {path} {fault}", mend="name a WAV file with --audio", code=Exit.USAGE)


def require_folder(path: Path) -> None:
    """Make a folder for results, where it is not there yet.

    Raises:
        FirstwordError: It cannot be made or written to.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        trial = path / ".firstword"
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise FirstwordError(
            f"{path} is no folder that can be written to: {error.strerror}",
            mend="give --out a folder that can",
            code=Exit.USAGE,
        ) from error
