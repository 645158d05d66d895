"""The patch check: the series in patches/ is applied to this environment, whole and unchanged."""

import re
from collections.abc import Iterator

from firstword.engine.preflight.finding import Finding
from firstword.engine.preflight.survey import Survey
from firstword.engine.preflight.walk import top
from firstword.errors import Exit

CHECK = "patches"
_LATER = (
    "upstream's bugs that the patches mend, for example: a click at each chunk of streamed speech, a server that "
    "ends when two requests meet in token2wav"
)
# What a problem is about: a file, or a distribution of another version or of none.
_SUBJECT = re.compile(r"^(\S+/\S+\.py|\S+(?= is (?:not installed|\d)))")


def patched(survey: Survey) -> Iterator[Finding]:
    """Yield a finding for each thing that `firstword patches verify` finds in what serving reaches."""
    context = survey.context
    try:
        from firstword.patching import verify
    except ImportError as error:
        cause = f"the patches can't be verified: {error}"
        yield Finding(CHECK, CHECK, cause, _LATER, context.install("unidiff"), Exit.PATCHES)
        return
    reached = {top(module) for module in survey.walk.reached} | {top(module) for module, _ in survey.walk.absent}
    distributions = {survey.distribution_of(module) for module in reached}
    for problem in verify(context.site_packages):
        about = _SUBJECT.match(problem.cause)
        if about and about[1].partition("/")[0] not in reached | distributions:
            continue
        yield Finding(CHECK, about[1] if about else CHECK, problem.cause, _LATER, problem.mend, Exit.PATCHES)
