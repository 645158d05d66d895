"""Where things are. Standard library only.

``root`` holds what is shipped (``configs/``, ``patches/``, ``docker/requirements/``); ``home`` holds
what is made here (environments, checkpoints, caches, logs) and may be deleted at any time.
"""

import os
from pathlib import Path

from firstword.errors import Exit, FirstwordError


def root() -> Path:
    """Return the folder that holds ``configs/`` and ``patches/``.

    ``FIRSTWORD_ROOT`` when set, else the checkout this package runs from.

    Raises:
        FirstwordError: Neither holds a ``configs/`` folder.
    """
    given = os.environ.get("FIRSTWORD_ROOT")
    path = Path(given) if given else Path(__file__).resolve().parents[2]
    if not (path / "configs").is_dir():
        raise FirstwordError(
            f"no configs/ folder in {path}",
            mend="set FIRSTWORD_ROOT to a firstword checkout",
            code=Exit.CONFIG,
        )
    return path


def home() -> Path:
    """Return the folder for everything made here: ``FIRSTWORD_HOME``, else ``.firstword`` in `root`."""
    given = os.environ.get("FIRSTWORD_HOME")
    return Path(given).absolute() if given else root() / ".firstword"
