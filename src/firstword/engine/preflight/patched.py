"""The patch check: the series in patches/ is applied to this environment, whole and unchanged."""

from collections.abc import Iterator

from firstword.engine.preflight.context import Context
from firstword.engine.preflight.finding import Finding
from firstword.errors import Exit

CHECK = "patches"
_LATER = (
    "upstream's bugs that the patches mend, for example: a click at each chunk of streamed speech, a server that "
    "ends when two requests meet in token2wav"
)


def patched(context: Context) -> Iterator[Finding]:
    """Yield a finding for each thing that `firstword patches verify` finds."""
    try:
        from firstword.patching import verify
    except ImportError as error:
        cause = f"the patches can't be verified: {error}"
        yield Finding(CHECK, "patches", cause, _LATER, context.install(), Exit.PATCHES)
        return
    for problem in verify(context.site_packages):
        first = problem.cause.split()[0]
        subject = first if "/" in first or first in context.installed.distributions else CHECK
        yield Finding(CHECK, subject, problem.cause, _LATER, problem.mend, Exit.PATCHES)
