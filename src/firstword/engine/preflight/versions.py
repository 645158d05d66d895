"""The version check: what is installed is what the lock says."""

import re
from collections.abc import Iterator
from pathlib import Path

from firstword.engine.preflight.finding import Finding
from firstword.engine.preflight.installed import canonical
from firstword.engine.preflight.survey import Survey
from firstword.errors import Exit

CHECK = "versions"
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_LATER = (
    "nothing at start, as a rule: a method or an argument that the release does not know fails in use "
    "(transformers 5.24, for one, ends voice cloning with AttributeError: property 'upsample' has no setter)"
)


def read_lock(path: Path) -> dict[str, str]:
    """Return a hash-locked requirement file's pins: canonical name -> version.

    Raises:
        OSError: The file cannot be read.
    """
    return {canonical(name): version for name, version in _PIN.findall(path.read_text(encoding="utf-8"))}


def versions(survey: Survey) -> Iterator[Finding]:
    """Yield a finding for each installed distribution of another version, and for each needed one without a pin.

    What the lock holds and nothing needs here may be absent, except with ``deep``: an image holds all of it.
    """
    context = survey.context
    try:
        pins = read_lock(context.lock)
    except OSError as error:
        yield Finding(
            CHECK,
            str(context.lock),
            f"the lock {context.lock} cannot be read: {error.strerror}",
            "a version that differs is not noticed",
            "set FIRSTWORD_ROOT to a firstword checkout",
            Exit.CONFIG,
        )
        return
    installed = context.installed.distributions
    for name, pin in pins.items():
        if name in installed and not _same(installed[name].version, pin):
            cause = f"{name} {installed[name].version} is installed, {context.lock.name} says {pin}"
            yield Finding(CHECK, name, cause, _LATER, context.install(name, again=True), Exit.ENVIRONMENT)
    for found in survey.needed_distributions:
        if found.name not in pins and found.name != "firstword":
            cause = f"{found.name} {found.version} is used, and {context.lock.name} does not hold it"
            mend = f"uv pip sync --python {context.python} --require-hashes {context.lock}"
            yield Finding(CHECK, found.name, cause, _LATER, mend, Exit.ENVIRONMENT)
    if context.deep:
        needed = set(survey.declared)
        for name in sorted(set(pins) - set(installed) - needed):
            cause = f"{name}, which {context.lock.name} holds, is not installed"
            later = "nothing serving these models is known to import it"
            yield Finding(CHECK, name, cause, later, context.install(name), Exit.ENVIRONMENT)


def _same(version: str, pin: str) -> bool:
    """Compare versions; a local part (``+cpu``) counts only when the pin has one."""
    return version == pin or ("+" not in pin and version.partition("+")[0] == pin)
