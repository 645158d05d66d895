"""The patch series: what we change in released packages, applied exactly or not at all.

`patches/` holds the series; this package reads it, applies it to an installed environment or to
unpacked wheels, verifies what is there, and builds side-by-side trees for tests and benchmarks.
Standard library and `unidiff` only.
"""

from firstword.patching.applying import apply
from firstword.patching.manifest import Manifest, manifest_path
from firstword.patching.series import Patch, Series, load_series
from firstword.patching.trees import build_tree
from firstword.patching.verifying import Problem, verify

__all__ = ["Manifest", "Patch", "Problem", "Series", "apply", "build_tree", "load_series", "manifest_path", "verify"]
