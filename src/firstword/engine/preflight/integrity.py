"""The file check: installed files are there and are what their distribution brought, or what patches/ made of them.

A wheel's RECORD holds a size and a SHA-256 for each file. Of every distribution that serving needs, each file must be
there: compiled modules, shared libraries and modules that are imported by a name in a string are found no other way.
Sizes are compared for all that is compiled, and for all files of the distributions that serving reads itself; digests
for the sources that were read anyway, and with ``deep`` for every file.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from firstword.engine.preflight.finding import Finding
from firstword.engine.preflight.installed import Distribution, Record
from firstword.engine.preflight.listings import Listings
from firstword.engine.preflight.phases import FIRST_SPEECH, FIRST_USE, SOMETIME, Phase
from firstword.engine.preflight.survey import Survey
from firstword.engine.preflight.walk import top
from firstword.errors import Exit

CHECK = "files"
_NAMED = 3
_COMPILED = re.compile(r"\.so(\.\d+)*$")
# Wheels whose own RECORD does not fit their files, as the index serves them: it can tell nothing.
_WRONG_RECORDS = frozenset({("pynvvideocodec", "2.0.4")})


@dataclass(frozen=True)
class Differences:
    """The files of one distribution that are gone or changed, as paths below site-packages."""

    distribution: Distribution
    gone: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def changed_modules(self) -> dict[str, str]:
        """Module -> path, of the changed files that are modules."""
        return {_module(path): path for path in self.changed if path.endswith(".py")}

    @property
    def breaks_imports(self) -> bool:
        """Whether something is gone, or compiled and changed: imports then raise without naming the file."""
        return bool(self.gone) or any(_COMPILED.search(path) for path in self.changed)


def differences(survey: Survey) -> list[Differences]:
    """Return what differs in the distributions that serving needs: their files' content as far as it is read."""
    context = survey.context
    read = {found.name for found in survey.needed_distributions if context.deep or found in survey.walked_distributions}
    read |= {survey.distribution_of(need) for need in survey.light_needs()}
    names = read | {found.name for found in survey.needed_distributions}
    listings = Listings(context.site_packages)
    found = []
    for name in sorted(names & set(context.installed.distributions)):
        distribution = context.installed.distributions[name]
        gone, changed = [], []
        if (name, distribution.version) in _WRONG_RECORDS:
            continue
        for record in _concerned(survey, distribution):
            if record.path in context.patched_files:
                continue
            if not listings.holds(record.path):
                state: str | None = "gone"
            elif name in read or _COMPILED.search(record.path):
                state = _state(survey, record)
            else:
                state = None
            if state == "changed" and _is_anothers(survey, distribution, record.path):
                continue
            if state == "gone":
                gone.append(record.path)
            elif state == "changed":
                changed.append(record.path)
        if gone or changed:
            found.append(Differences(distribution, tuple(gone), tuple(changed)))
    return found


def findings(survey: Survey, found: Differences, raised: dict[str, str]) -> Iterator[Finding]:
    """Yield a finding for the files that are gone, and one for those that changed.

    Args:
        survey: The survey.
        found: From `differences`.
        raised: Module -> error, of the changed modules that were imported for real.
    """
    name = f"{found.distribution.name} {found.distribution.version}"
    mend = survey.context.install(found.distribution.name, again=True)
    if found.gone:
        cause = f"{_count(found.gone)} of {name} gone: {_some(found.gone)}"
        phase = _phase(survey, found.gone, unknown=SOMETIME)
        later = phase.later("ImportError, ModuleNotFoundError or FileNotFoundError")
        yield Finding(CHECK, found.distribution.name, cause, later, mend, Exit.ENVIRONMENT)
    broken = {module: raised[module] for module in found.changed_modules if module in raised}
    for module, error in broken.items():
        path = found.changed_modules[module]
        cause = f"{path} is not what {name} installed, and raises on import: {error}"
        phase = _phase(survey, (path,))
        # hyperpyyaml looks classes up with pydoc, which wraps what an import raises.
        later = phase.later(f"ErrorDuringImport: problem in {module} - {error}" if phase is FIRST_SPEECH else error)
        yield Finding(CHECK, module, cause, later, mend, Exit.ENVIRONMENT)
    rest = tuple(path for path in found.changed if _module(path) not in broken)
    if rest:
        cause = f"{_count(rest)} of {name} changed since installed, and not by patches/: {_some(rest)}"
        later = "what the changes do; nothing tells that the release is another one"
        yield Finding(CHECK, found.distribution.name, cause, later, mend, Exit.ENVIRONMENT)


def _concerned(survey: Survey, distribution: Distribution) -> Iterator[Record]:
    """Yield the records that matter: of a distribution that is read module by module, those of packages reached."""
    reached = {top(module) for module in survey.walk.reached}
    every = distribution not in survey.walked_distributions
    for record in distribution.records:
        first = record.path.partition("/")[0]
        if first == ".." or first.endswith((".dist-info", ".pth")) or record.path.endswith(".pyc"):
            continue
        if every or first.partition(".")[0] in reached or first.endswith(".libs"):
            yield record


def _is_anothers(survey: Survey, distribution: Distribution, path: str) -> bool:
    """Return whether a file is as another distribution brought it: where several bring one, the last one wins."""
    others = (other for other in survey.context.installed.distributions.values() if other is not distribution)
    return any(record.path == path and _state(survey, record) is None for other in others for record in other.records)


def _state(survey: Survey, record: Record) -> str | None:
    path = survey.context.site_packages / record.path
    try:
        size = path.stat().st_size
    except OSError:
        return "gone"
    if size != record.size:
        return "changed"
    digest = survey.sources.digests.get(str(path))
    if digest is None and survey.context.deep:
        digest = file_digest(path)
    return "changed" if digest not in (None, record.sha256) else None


def file_digest(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _phase(survey: Survey, paths: tuple[str, ...], *, unknown: Phase = FIRST_USE) -> Phase:
    for path in paths:
        # A package loads what it has compiled when it is imported.
        module = top(path.replace("/", ".")) if _COMPILED.search(path) else _module(path)
        reached = survey.walk.reached.get(module)
        if reached:
            return reached.phase
    return unknown


def _count(paths: tuple[str, ...]) -> str:
    return "1 file" if len(paths) == 1 else f"{len(paths)} files"


def _some(paths: tuple[str, ...]) -> str:
    more = f", and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more
