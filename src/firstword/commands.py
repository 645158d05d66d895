"""Commands as this machine can type them. Standard library only.

Messages name ``firstword`` and ``uv``; neither is on ``PATH`` after ``scripts/up``, which installs nothing outside its
folder. Where they are not, a message shows the running program's own path instead.
"""

import os
import re
import shlex
import shutil
import sys

from firstword.errors import FirstwordError

_NAMES = "serve|preflight|probe|gateway|smoke|models|synthetic|patches|bench"
# In a command, not in a path (/opt/firstword) nor in a sentence about firstword.
_COMMAND = re.compile(rf"(?<![\w/.-])(?:firstword(?= (?:{_NAMES})\b)|uv(?= (?:pip|venv|python) ))")


def typed(text: str) -> str:
    """Return ``text`` with each command in it as it can be typed here."""
    return _COMMAND.sub(lambda found: program(found[0]), text)


def program(name: str) -> str:
    """Return how ``firstword`` or ``uv`` is called here: by its name where ``PATH`` has it, else by its path."""
    own = _own(name)
    on_path = shutil.which(name)
    if on_path is not None and (
        name != "firstword" or own is None or os.path.realpath(own) == os.path.realpath(on_path)
    ):
        return name
    return name if own is None else shlex.quote(own)


def _own(name: str) -> str | None:
    """Return the program of this environment, else the one that `scripts/up` made; None for neither."""
    from firstword import paths

    places = [f"{sys.prefix}/bin/{name}"]
    try:
        places.append(f"{paths.home()}/{'uv' if name == 'uv' else 'engine'}/bin/{name}")
    except FirstwordError:  # no configs/ folder: there is no home either
        pass
    # Not Path.exists, which raises where it may not look.
    return next((os.path.abspath(place) for place in places if os.path.exists(place)), None)  # noqa: PTH100, PTH110
