"""Check everything that serving a model will need, before an engine starts.

`run_checks` returns all that would fail later, each cause once. Nothing of vLLM or torch is imported by it.
"""

from firstword.engine.preflight.context import Context, FilePin
from firstword.engine.preflight.finding import Finding, exit_code
from firstword.engine.preflight.probes import Probes
from firstword.engine.preflight.requiring import PreflightFailed, require
from firstword.engine.preflight.run import run_checks

__all__ = ["Context", "FilePin", "Finding", "PreflightFailed", "Probes", "exit_code", "require", "run_checks"]
