"""The module check: what serving will import exists, and holds the names that are looked up in it."""

from collections.abc import Iterator

from firstword.engine.preflight.finding import Finding
from firstword.engine.preflight.phases import FIRST_SPEECH, SEEN, START, Phase
from firstword.engine.preflight.survey import Survey
from firstword.engine.preflight.walk import Absent, top
from firstword.errors import Exit

CHECK = "modules"


def missing(survey: Survey) -> Iterator[Finding]:
    """Yield one finding for each distribution or module that serving needs and that is not there."""
    groups: dict[str, list[Absent]] = {}
    for absent in survey.walk.absent.values():
        if not absent.name:
            groups.setdefault(survey.distribution_of(absent.module), []).append(absent)
    for name, absents in groups.items():
        yield _missing(survey, name, absents)
    installed = survey.context.installed.distributions
    for name, by in sorted(survey.declared.items()):
        if name not in installed and name not in groups:
            yield Finding(
                CHECK,
                name,
                f"{name} is not installed: {by} declares that it needs it",
                SEEN.get(name) or _phase_of(survey, by).later(_not_found(name.replace("-", "_"))),
                survey.context.install(name),
                Exit.ENVIRONMENT,
            )


def renamed(survey: Survey) -> Iterator[Finding]:
    """Yield a finding for each class or function that is looked up in a module which does not define it."""
    for absent in survey.walk.absent.values():
        if not absent.name:
            continue
        name = survey.distribution_of(absent.module)
        error = f"ImportError: cannot import name '{absent.name}' from '{absent.module}'"
        if absent.phase is FIRST_SPEECH and f"{absent.module}.{absent.name}" in survey.flow_classes:
            error = f"ImportError: There is no such class as {absent.module}.{absent.name}"
        yield Finding(
            CHECK,
            f"{absent.module}.{absent.name}",
            f"{absent.module} of {_version(survey, name)} does not define {absent.name}: {absent.because}",
            absent.phase.later(error),
            survey.context.install(name, again=True),
            Exit.MISSING_CLASS,
        )


def unreadable(survey: Survey) -> Iterator[Finding]:
    """Yield a finding for each needed module that is not valid Python."""
    for module, error in survey.walk.unreadable.items():
        reached = survey.walk.reached.get(module)
        name = survey.distribution_of(module)
        yield Finding(
            CHECK,
            module,
            f"{module} of {_version(survey, name)} cannot be read as Python: {error}",
            (reached.phase if reached else START).later(error),
            survey.context.install(name, again=True),
            Exit.ENVIRONMENT,
        )


def _missing(survey: Survey, name: str, absents: list[Absent]) -> Finding:
    context, first = survey.context, absents[0]
    others = [absent.module for absent in absents[1:]]
    also = f"; so is {', '.join(others)}" if others else ""
    if name in context.installed.distributions:
        cause = f"{first.module}, a part of {_version(survey, name)}, is missing: {first.because}{also}"
        mend = context.install(name, again=True)
    else:
        part = f" (module {first.module})" if first.module != name else ""
        cause = f"{name}{part} is not installed: {first.because}{also}"
        mend = context.install(name)
    return Finding(CHECK, name, cause, SEEN.get(first.module) or _later(survey, first), mend, Exit.ENVIRONMENT)


def _later(survey: Survey, absent: Absent) -> str:
    if absent.phase is not FIRST_SPEECH:
        return absent.phase.later(_not_found(absent.module))
    named = next((path for path in survey.flow_classes if path.startswith(absent.module + ".")), None)
    if named:
        return absent.phase.later(f"ImportError: There is no such class as {named}")
    return absent.phase.later(f"ErrorDuringImport: {_not_found(absent.module)}")


def _not_found(module: str) -> str:
    return f"ModuleNotFoundError: No module named '{module}'"


def _phase_of(survey: Survey, distribution: str) -> Phase:
    for module, reached in survey.walk.reached.items():
        if top(module) == module and survey.distribution_of(module) == distribution:
            return reached.phase
    return START


def _version(survey: Survey, distribution: str) -> str:
    found = survey.context.installed.distributions.get(distribution)
    return f"{distribution} {found.version}" if found else distribution
