"""Commands as this machine can type them. Standard library only.

Messages name ``firstword`` and ``uv``; neither is on ``PATH`` after ``scripts/up``, which installs nothing outside its
folder. Where they are not, a message shows the running program's own path instead.
"""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from firstword.errors import FirstwordError

_NAMES = "serve|preflight|probe|gateway|smoke|models|synthetic|patches|bench"
# In a command, not in a path (/opt/firstword) nor in a sentence about firstword.
_COMMAND = re.compile(rf"(?<![\w/.-])(?:firstword(?= (?:{_NAMES})\b)|uv(?= (?:pip|venv|python) ))")


def typed(text: str) -> str:
    """Return ``text`` with each command in it as it can be typed here."""
    return _COMMAND.sub(lambda found: program(found[0]), text)


def program(name: str) -> str:
    """Return how ``firstword`` or ``uv`` is called here: by its name where ``PATH`` has it, else by its path."""
    from firstword import paths

    on_path = shutil.which(name)
    own = Path(sys.prefix) / "bin" / name
    if on_path is not None and (name != "firstword" or not own.exists() or Path(on_path).samefile(own)):
        return name
    places = [own]
    try:
        home = paths.home()
    except FirstwordError:  # no configs/ folder: there is no home either
        home = None
    if home is not None:
        places += [home / ("uv/bin/uv" if name == "uv" else "engine/bin/firstword")]
    return next((shlex.quote(str(place)) for place in places if os.path.exists(place)), name)  # noqa: PTH110  # never raises
