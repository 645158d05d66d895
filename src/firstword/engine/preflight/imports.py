"""Read from a module's source what it imports and what it defines, without running it.

Three kinds of import need not succeed: under ``TYPE_CHECKING``, under a condition that is false on this
device, and in a ``try`` whose handler copes. A handler that only puts a stand-in under the same name
(``av = PlaceholderModule("av")``, ``soundfile = None``) does not cope: it moves the failure to the first use.
"""

import ast
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from enum import Enum

# Platform questions whose answer is known before anything runs, see `Reader._truth`.
_ON_CUDA = {"is_cuda", "is_cuda_alike"}
_ON_CPU = {"is_cpu"}
_NEVER = {"is_rocm", "is_npu", "is_xpu", "is_musa", "is_hpu", "is_tpu", "is_neuron"}
_CATCH_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
# A module whose names cannot be listed from its source alone.
_OPEN_ENDED = (b"globals()", b"sys.modules[__name__]", b"def __getattr__(name")


class Guard(Enum):
    """What stands between an import and a failure."""

    NONE = "none"
    STAND_IN = "stand-in"
    CONDITION = "condition"
    OPTIONAL = "optional"


@dataclass(frozen=True)
class Import:
    """One import statement: ``import module`` or ``from module import names``."""

    module: str
    names: tuple[str, ...]
    lazy: bool
    guard: Guard


@dataclass
class Source:
    """What a module's source says.

    Attributes:
        imports: In order of appearance.
        names: Everything bound at module level.
        classes: The classes among them.
        open_ended: True when other names may exist too (``from x import *``, ``__getattr__``).
    """

    imports: list[Import] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    open_ended: bool = False


def attributes(source: bytes, modules: Container[str]) -> set[tuple[str, str]]:
    """Return which attributes ``source`` looks up in which of ``modules`` that it imports as a whole.

    They are a module's interface as far as it is used: ``librosa`` imports its parts only when looked up.

    Raises:
        SyntaxError: It is not Python.
    """
    tree = ast.parse(source)
    known = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name in modules and (alias.asname or "." not in alias.name)
    }
    return {
        (known[node.value.id], node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known
    }


def read(source: bytes, module: str, *, is_package: bool, device: str) -> Source:
    """Return what ``source``, the text of ``module``, imports and defines.

    Args:
        source: The file's bytes.
        module: Its dotted name, for relative imports.
        is_package: Whether the file is an ``__init__.py``.
        device: ``cpu`` or ``cuda``; decides conditions such as ``current_platform.is_cuda()``.

    Raises:
        SyntaxError: The file is not Python.
    """
    reader = _Reader(module if is_package else module.rpartition(".")[0], device, is_package=is_package)
    reader.found.open_ended = any(mark in source for mark in _OPEN_ENDED)
    reader.block(ast.parse(source).body, lazy=False, guard=Guard.NONE)
    return reader.found


class _Reader:
    def __init__(self, package: str, device: str, *, is_package: bool) -> None:
        self.package = package
        # `from . import part` in a package's own __init__ defines nothing: part must exist beside it.
        self.itself = package if is_package else None
        self.device = device
        self.inside_class = 0
        self.found = Source()

    def block(self, body: Iterable[ast.stmt], *, lazy: bool, guard: Guard) -> None:
        for statement in body:
            self._statement(statement, lazy, guard)

    def _statement(self, node: ast.stmt, lazy: bool, guard: Guard) -> None:  # noqa: PLR0912  # one case a kind
        match node:
            case ast.Import():
                for alias in node.names:
                    self._bind(alias.asname or alias.name.partition(".")[0], lazy)
                    self.found.imports.append(Import(alias.name, (), lazy, guard))
            case ast.ImportFrom():
                self._from(node, lazy, guard)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._bind(node.name, lazy)
                self.block(node.body, lazy=True, guard=guard)
            case ast.ClassDef():
                self._bind(node.name, lazy)
                if not lazy and not self.inside_class:
                    self.found.classes.add(node.name)
                self.inside_class += 1
                self.block(node.body, lazy=lazy, guard=guard)
                self.inside_class -= 1
            case ast.If():
                truth = self._truth(node.test)
                below = guard if truth is not None or guard is not Guard.NONE else Guard.CONDITION
                if truth is not False:
                    self.block(node.body, lazy=lazy, guard=below)
                if truth is not True:
                    self.block(node.orelse, lazy=lazy, guard=below)
            case ast.Try() | ast.TryStar():
                self._try(node, lazy, guard)
            case ast.Global():
                self.found.names.update(node.names)
            case ast.Match():
                for case in node.cases:
                    self.block(case.body, lazy=lazy, guard=guard if guard is not Guard.NONE else Guard.CONDITION)
            case _:
                self._other(node, lazy, guard)

    def _other(self, node: ast.stmt, lazy: bool, guard: Guard) -> None:
        targets: list[ast.expr] = []
        match node:
            case ast.Assign():
                targets = node.targets
            case ast.AnnAssign() | ast.AugAssign() | ast.For() | ast.AsyncFor():
                targets = [node.target]
            case ast.With() | ast.AsyncWith():
                targets = [item.optional_vars for item in node.items if item.optional_vars]
        for target in targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    self._bind(name.id, lazy)
        if isinstance(node, ast.With | ast.AsyncWith | ast.For | ast.AsyncFor | ast.While):
            self.block(node.body, lazy=lazy, guard=guard)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            self.block(node.orelse, lazy=lazy, guard=guard)

    def _from(self, node: ast.ImportFrom, lazy: bool, guard: Guard) -> None:
        module = node.module or ""
        if node.level:
            package = self.package.split(".")
            base = package[: len(package) - node.level + 1]
            module = ".".join([*base, module] if module else base)
        names = tuple(alias.name for alias in node.names)
        for alias in node.names:
            if alias.name == "*":
                self.found.open_ended = self.found.open_ended or not lazy
            elif module != self.itself or alias.asname:
                self._bind(alias.asname or alias.name, lazy)
        self.found.imports.append(Import(module, names, lazy, guard))

    def _try(self, node: ast.Try | ast.TryStar, lazy: bool, guard: Guard) -> None:
        inside = guard
        if guard is Guard.NONE:
            # The first handler that catches a missing module decides, as in Python.
            caught = next((handler for handler in node.handlers if _catches(handler)), None)
            inside = _copes(caught, _bound(node.body)) if caught else guard
        self.block(node.body, lazy=lazy, guard=inside)
        for handler in node.handlers:
            self.block(handler.body, lazy=lazy, guard=Guard.OPTIONAL)
        self.block(node.orelse, lazy=lazy, guard=inside)
        self.block(node.finalbody, lazy=lazy, guard=guard)

    def _bind(self, name: str, lazy: bool) -> None:
        if not lazy and not self.inside_class:
            self.found.names.add(name)

    def _truth(self, test: ast.expr) -> bool | None:  # noqa: PLR0911  # one return a kind
        """Return whether a condition holds on this device, None when that is known only at run time."""
        match test:
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                return False
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._truth(operand)
                return None if inner is None else not inner
            case ast.BoolOp(op=operator, values=values):
                deciding = isinstance(operator, ast.Or)
                truths = [self._truth(value) for value in values]
                if deciding in truths:
                    return deciding
                return None if None in truths else not deciding
            case ast.Call(func=ast.Attribute(attr=question)):
                if question in _ON_CUDA:
                    return self.device == "cuda"
                if question in _ON_CPU:
                    return self.device == "cpu"
                return False if question in _NEVER else None
        return None


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in _CATCH_IMPORT_ERRORS for kind in types)


def _bound(body: Iterable[ast.stmt]) -> set[str]:
    """Return the names that the imports directly in ``body`` bind."""
    return {
        alias.asname or alias.name.partition(".")[0]
        for statement in body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for alias in statement.names
    }


def _copes(handler: ast.ExceptHandler, imported: set[str]) -> Guard:
    if isinstance(handler.body[-1], ast.Raise):
        return Guard.NONE
    stands_in = all(
        isinstance(statement, ast.Assign)
        and all(isinstance(target, ast.Name) and target.id in imported for target in statement.targets)
        for statement in handler.body
    )
    return Guard.STAND_IN if stands_in else Guard.OPTIONAL
