"""Preflight as `firstword serve` runs it: everything is in order, or one error that says all that is not."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from firstword import paths
from firstword.engine.preflight.context import Context
from firstword.engine.preflight.finding import Finding, exit_code
from firstword.engine.preflight.run import run_checks
from firstword.errors import FirstwordError

if TYPE_CHECKING:
    from firstword.engine.config import EngineConfig
    from firstword.engine.models import Checkpoint


class PreflightFailed(FirstwordError):  # noqa: N818  # a result, not a program error
    """What preflight found; its text and its JSON form hold every finding."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        first = findings[0]
        cause = first.cause if len(findings) == 1 else f"{len(findings)} things would fail"
        mend = first.mend if len(findings) == 1 else "see each of them"
        super().__init__(cause, mend=mend, code=exit_code(findings))

    def __str__(self) -> str:
        return report(self.findings)

    def as_dict(self) -> dict[str, str | int]:
        """Return the JSON form; ``cause`` names all causes."""
        return super().as_dict() | {"cause": "; ".join(finding.cause for finding in self.findings)}


def report(findings: Sequence[Finding]) -> str:
    """Return the findings as text, one paragraph each; what several would look like later is said once, after them."""
    count = "1 thing" if len(findings) == 1 else f"{len(findings)} things"
    by_later: dict[str, list[Finding]] = {}
    for finding in findings:
        by_later.setdefault(finding.later, []).append(finding)
    lines = [f"{count} would fail later"]
    for later, alike in by_later.items():
        if len(alike) == 1:
            lines.append(str(alike[0]))
        else:
            lines += [finding.without_later() for finding in alike]
            lines.append(f"  later, for these {len(alike)}: {later}")
    return "\n".join(lines)


def require(checkpoint: "Checkpoint", config: "EngineConfig", *, host: str, port: int) -> None:
    """Check everything that serving this checkpoint with this deploy config will need.

    Args:
        checkpoint: The resolved checkpoint.
        config: The deploy config.
        host: Where the server will listen.
        port: The same.

    Raises:
        PreflightFailed: Something would fail later.
    """
    context = Context(
        device=config.device,
        family=checkpoint.family,
        model_dir=checkpoint.path,
        deploy_config=config.path,
        host=host,
        port=port,
        memory=paths.home() / "cache" / "preflight",
    )
    found = run_checks(context)
    if found:
        raise PreflightFailed(found)
