"""Run all checks, and say each cause once."""

import re
from collections.abc import Iterator

from firstword.engine.preflight import integrity, machine, modules, versions
from firstword.engine.preflight.context import Context
from firstword.engine.preflight.finding import Finding, told
from firstword.engine.preflight.integrity import Differences
from firstword.engine.preflight.model import model_files
from firstword.engine.preflight.patched import patched
from firstword.engine.preflight.phases import FIRST_USE
from firstword.engine.preflight.survey import Survey
from firstword.engine.preflight.trials import Trial
from firstword.engine.preflight.walk import top
from firstword.errors import Exit

_NOT_FOUND = re.compile(r"No module named '([\w.]+)'")
_NO_NAME = re.compile(
    r"cannot import name '(\w+)' from '([\w.]+)'|module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'"
)


def run_checks(context: Context) -> list[Finding]:
    """Return everything that would keep the model from being served, each cause once.

    Raises:
        FirstwordError: The checkout that firstword runs from is not whole.
    """
    other = list(machine.other_build(context))
    if other:
        return other
    survey = Survey(context)
    absent = [*modules.missing(survey), *modules.renamed(survey), *modules.unreadable(survey)]
    known = _Known(survey, absent)
    changed = [rest for found in integrity.differences(survey) if (rest := known.unexplained(found))]
    trial = Trial(context.python, _wanted(survey, changed), deep=context.deep)
    try:
        found = [
            *absent,
            *(finding for finding in versions.versions(survey) if finding.subject not in known.subjects),
            *(finding for finding in told("patches", patched(survey)) if not known.explains(finding.subject)),
            *told("model", model_files(context)),
            *told("machine", machine.checks(context)),
        ]
    finally:
        raised = trial.failures()
    for differences in changed:
        found += integrity.findings(survey, differences, raised)
        raised = {module: error for module, error in raised.items() if module not in differences.changed_modules}
    raised = {module: error for module, error in raised.items() if not known.caused(error)}
    return [*found, *_raising(survey, _unexplained(survey, raised, changed))]


class _Known:
    """What the module check has already reported, so that other checks need not say it again."""

    def __init__(self, survey: Survey, findings: list[Finding]) -> None:
        self.survey = survey
        self.subjects = {finding.subject for finding in findings}
        self.names = {(absent.module, absent.name) for absent in survey.walk.absent.values()}
        self.modules = {module for module, name in self.names if name} | set(survey.walk.unreadable)

    def explains(self, path: str) -> bool:
        """Whether a file, or a distribution, is concerned by a finding that there is already."""
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return path in self.subjects or module in self.modules or self.survey.distribution_of(module) in self.subjects

    def unexplained(self, found: Differences) -> Differences | None:
        """Return the differences without those that a finding explains, None when none is left."""
        gone, changed = (
            tuple(path for path in paths if not self.explains(path)) for paths in (found.gone, found.changed)
        )
        return Differences(found.distribution, gone, changed) if gone or changed else None

    def caused(self, error: str) -> bool:
        """Whether an import error comes from what has been reported."""
        missing = _NOT_FOUND.search(error)
        if missing:
            return self.survey.distribution_of(top(missing[1])) in self.subjects
        unknown = _NO_NAME.search(error)
        if unknown:
            module, name = unknown["module"] or unknown[2], unknown["name"] or unknown[1]
            return (module, name) in self.names
        return any(module.rpartition(".")[2] in error for module in self.survey.walk.unreadable)


def _wanted(survey: Survey, changed: list[Differences]) -> dict[str, tuple[str, ...]]:
    """Return what to import for real, with the names to look up: module -> names.

    Quickly: what the model's own modules import from elsewhere, where that does without torch, and sources
    that are not as installed. With ``deep``: everything that serving starts from and all of the model's own.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    if survey.context.deep:
        for start in survey.starts:
            wanted[start.module] = tuple(dict.fromkeys((*wanted.get(start.module, ()), *start.names)))
        wanted |= dict.fromkeys(sorted(survey.walk.own_needs - wanted.keys()), ())
        for module, names in survey.interfaces().items():
            wanted[module] = tuple(dict.fromkeys((*wanted.get(module, ()), *names)))
    else:
        wanted = dict.fromkeys(survey.light_needs(), ())
        reached = survey.walk.reached
        wanted |= {module: () for found in changed for module in found.changed_modules if module in reached}
    return {module: names for module, names in wanted.items() if module in survey.walk.reached}


def _unexplained(survey: Survey, raised: dict[str, str], differing: list[Differences]) -> dict[str, str]:
    """Return the errors of modules whose distribution, and all that it needs, have their files."""
    broken = {found.distribution.name for found in differing if found.breaks_imports}
    left = {}
    for module, error in raised.items():
        name = survey.distribution_of(module)
        if not broken & {name, *survey.context.installed.closure({name})}:
            left[module] = error
    return left


def _raising(survey: Survey, raised: dict[str, str]) -> Iterator[Finding]:
    """Yield a finding for each error that imports ended with; one cause often ends many."""
    by_error: dict[str, list[str]] = {}
    for module, error in raised.items():
        by_error.setdefault(error, []).append(module)
    for error, failed in by_error.items():
        first = failed[0]
        name = survey.distribution_of(first)
        more = f" (and {len(failed) - 1} more modules)" if len(failed) > 1 else ""
        reached = survey.walk.reached.get(first)
        yield Finding(
            "imports",
            first,
            f"{first}{more} is installed and raises on import: {error}",
            (reached.phase if reached else FIRST_USE).later(error),
            survey.context.install(name, again=True),
            Exit.ENVIRONMENT,
        )
