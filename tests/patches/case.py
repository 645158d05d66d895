"""A patch, and what its check finds."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """A check, what it finds with the whole series, and what it finds without the patch."""

    check: str
    right: dict[str, Any] = field(default_factory=dict)
    wrong: dict[str, Any] = field(default_factory=dict)
