"""Walk imports from where serving starts to everything it needs.

Inside the walked packages each import is followed. Imports at module level must succeed everywhere. In the
model's own modules those inside functions must too, and so must those behind a stand-in. Modules of other
packages are looked up, not read.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from firstword.engine.preflight.imports import Guard, Import, Source
from firstword.engine.preflight.phases import AUDIO_REQUEST, FIRST_USE, Phase
from firstword.engine.preflight.resolve import Resolver
from firstword.engine.preflight.sources import Sources

# Read module by module: what vLLM-Omni declares is neither all that these need nor needed by all of them.
WALKED = ("vllm", "vllm_omni", "cosyvoice2", "flashcosyvoice", "s3tokenizer", "firstword.platform")


@dataclass(frozen=True)
class Start:
    """A module from which to walk, when it is imported, who wants it (a clause), and the names looked up in it."""

    module: str
    phase: Phase
    because: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reached:
    """When a module is imported first, and by whom."""

    phase: Phase
    because: str


@dataclass(frozen=True)
class Absent:
    """A module (empty name), or a name in a module, that is not there."""

    module: str
    name: str
    phase: Phase
    because: str


@dataclass
class Walk:
    """What a walk found.

    Attributes:
        reached: Every module that exists and is needed.
        absent: Everything needed that does not exist.
        unreadable: Modules that are not valid Python, with the error.
        own_needs: Modules outside the walked packages which the model's own modules import.
    """

    reached: dict[str, Reached] = field(default_factory=dict)
    absent: dict[tuple[str, str], Absent] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    own_needs: set[str] = field(default_factory=set)


def top(module: str) -> str:
    """Return the first part of a module's name: the package it belongs to."""
    return module.partition(".")[0]


def is_inside(module: str, packages: Iterable[str]) -> bool:
    """Whether ``module`` is one of ``packages`` or lies in one."""
    return any(module == package or module.startswith(package + ".") for package in packages)


class Walker:
    """Walks from one `Start` after the other, in the order in which they happen.

    Args:
        resolver: Finds modules.
        sources: Reads them.
        entries: Modules whose functions run at start, so that imports inside them count as their own.
        own: Modules and packages of the model itself.
    """

    def __init__(self, resolver: Resolver, sources: Sources, entries: Sequence[str], own: Sequence[str]) -> None:
        self.resolver = resolver
        self.sources = sources
        self.entries = tuple(entries)
        self.own = tuple(own)
        self.found = Walk()
        self._known: dict[str, Source | None] = {}
        self._pending: list[tuple[str, Phase]] = []
        self._later: list[tuple[str, Import, Phase]] = []

    def walk(self, starts: Iterable[Start]) -> Walk:
        """Return everything reached from ``starts``; the phase of a module is the first one that reaches it."""
        for start in starts:
            if self._reach(start.module, start.phase, start.because):
                for name in start.names:
                    self._need_name(start.module, name, start.phase, start.because)
            self._drain()
        while self._later:
            module, statement, phase = self._later.pop(0)
            self._follow(module, statement, phase)
            self._drain()
        return self.found

    def source(self, name: str) -> Source | None:
        """Return what a module's source says; None for what has no source or is not Python."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> Source | None:
        module = self.resolver.find(name)
        if module is None:
            return None
        try:
            return self.sources.read(module)
        except (SyntaxError, ValueError, OSError) as error:
            self.found.unreadable[name] = f"{type(error).__name__}: {error}"
            return None

    def _drain(self) -> None:
        while self._pending:
            module, phase = self._pending.pop()
            source = self.source(module)
            own = is_inside(module, self.own)
            for statement in source.imports if source else ():
                match statement.guard:
                    case Guard.OPTIONAL:
                        continue
                    case Guard.STAND_IN if own:
                        self._later.append((module, statement, AUDIO_REQUEST))
                    case Guard.NONE if not statement.lazy or module in self.entries:
                        self._follow(module, statement, phase)
                    case Guard.NONE | Guard.CONDITION if own:
                        self._later.append((module, statement, FIRST_USE))

    def _follow(self, module: str, statement: Import, phase: Phase) -> None:
        target = statement.module
        because = f"{module} imports it"
        if not self._reach(target, phase, because):
            return
        if is_inside(module, self.own) and not is_inside(target, WALKED) and top(target) not in sys.stdlib_module_names:
            self.found.own_needs.add(target)
        if is_inside(target, WALKED):
            for name in statement.names:
                self._need_name(target, name, phase, because)

    def _reach(self, name: str, phase: Phase, because: str) -> bool:
        """Reach a module and the packages around it; return False when it does not exist."""
        if top(name) in sys.stdlib_module_names:
            return True
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            part = ".".join(parts[:count])
            if part in self.found.reached:
                continue
            if self.resolver.find(part) is None:
                self.found.absent.setdefault((part, ""), Absent(part, "", phase, because))
                return False
            self.found.reached[part] = Reached(phase, because)
            if is_inside(part, WALKED):
                self._pending.append((part, phase))
        return True

    def _need_name(self, module: str, name: str, phase: Phase, because: str) -> None:
        found = self.resolver.find(module)
        if name == "*" or found is None:
            return
        source = self.source(module)
        if found.is_package and self.resolver.find(f"{module}.{name}") and not (source and name in source.names):
            self._reach(f"{module}.{name}", phase, because)
        elif source and not source.open_ended and name not in source.names:
            self.found.absent.setdefault((module, name), Absent(module, name, phase, because))
