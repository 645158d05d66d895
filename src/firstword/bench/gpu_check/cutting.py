"""Take single functions and classes out of a file by its syntax tree, with what they need and nothing else.

A function needs the names that its code loads. Each is looked for: among the stand-ins given, Python's own, the
file's other top-level statements (which are cut too), and imports: of PyTorch, NumPy, the standard library, or of
another file of the sources. A name that is in none of these means that the function cannot be cut, and is told. The
file itself is never run, and what it imports is not needed.

Lines keep their numbers, so a count names the line of the released or patched file.
"""

import __future__

import ast
import builtins
import dis
import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from firstword.bench.gpu_check.sources import Absent, Sources, text

_IMPORTABLE = {"torch", "numpy", *sys.stdlib_module_names}
_OWN = {"__name__", "__annotations__", "__class__"}  # what each namespace has, or makes
# What loads a name that is not the function's own.
_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}


class CannotCut(Exception):  # noqa: N818 - an outcome, not a program error
    """What a function needs and nobody gives.

    Args:
        cause: In a sentence.
        needs: The names, each with where it would come from.
    """

    def __init__(self, cause: str, needs: Sequence[str] = ()) -> None:
        super().__init__(cause)
        self.needs = tuple(needs) or (cause,)


class Cutter:
    """Cuts from one side's files.

    Attributes:
        side: ``stock`` or ``patched``.
        cut_from: The files that something was cut from.
        stood_in: Names that were given a stand-in, and needed it.
    """

    def __init__(self, sources: Sources, side: str) -> None:
        self.side = side
        self.cut_from: set[str] = set()
        self.stood_in: set[str] = set()
        self._sources = sources
        self._files: dict[str, _File] = {}
        self._kept: list[Mapping[str, Any]] = []

    def cut(self, path: str, *names: str, **stand_ins: Any) -> Any:
        """Return functions or classes: one, or a list where several are named.

        Args:
            path: A file, from site-packages on.
            names: Of functions, classes, or ``Class.method``, which becomes a function with ``self`` first.
            stand_ins: For names that its code loads, instead of what the file has.

        Raises:
            CannotCut: The file is absent, has no such name, or names are needed that nobody gives.
        """
        self._kept.append(stand_ins)  # what is cut is remembered by the identity of this
        found = [self._file(path).resolve(name, stand_ins) for name in names]
        return found[0] if len(found) == 1 else found

    def module(self, name: str) -> "_File | None":
        """Return the file of the sources that is a module."""
        try:
            return self._file(f"{name.replace('.', '/')}.py")
        except CannotCut:
            return None

    def _file(self, path: str) -> "_File":
        if path not in self._files:
            try:
                self._files[path] = _File(self, path, text(self._sources, self.side, path))
            except Absent as error:
                raise CannotCut(str(error)) from None
        return self._files[path]


class _File:
    """One file's statements, and those of them that were run."""

    def __init__(self, cutter: Cutter, path: str, source: str) -> None:
        self.name = f"{cutter.side}/{path}"
        self._cutter = cutter
        self._path = path
        self._bound: dict[str, ast.stmt] = {}
        self._made: dict[tuple[str, int], Any] = {}
        for statement in ast.parse(source).body:
            self._bound |= dict.fromkeys(_binds(statement), statement)
        self._under_way: list[tuple[str, int]] = []
        linecache.cache[self.name] = (len(source), None, source.splitlines(keepends=True), self.name)

    def find(self, name: str) -> ast.stmt | None:
        """Return the statement that makes a top-level name or a method."""
        owner, _, method = name.partition(".")
        statement = self._bound.get(owner)
        if not method or not isinstance(statement, ast.ClassDef):
            return None if method else statement
        return next((part for part in statement.body if method in _binds(part)), None)

    def resolve(self, name: str, stand_ins: Mapping[str, Any]) -> Any:
        """Return what a name stands for; see `Cutter.cut`."""
        key = (name, id(stand_ins))
        if key not in self._made:
            statement = self.find(name)
            if statement is None or key in self._under_way:
                circular = " that stands alone" if statement else ""
                raise CannotCut(f"{self._path} has no {name}{circular}", [f"{name}{circular}"])
            self._cutter.cut_from.add(self._path)
            self._under_way.append(key)
            self._made[key] = self._run(statement, name.rpartition(".")[2], stand_ins)
            self._under_way.remove(key)
        return self._made[key]

    def _run(self, statement: ast.stmt, name: str, stand_ins: Mapping[str, Any]) -> Any:
        """Run a statement in a namespace of its own, with what it needs."""
        code = compile(
            ast.Module([statement], type_ignores=[]),
            self.name,
            "exec",
            flags=__future__.annotations.compiler_flag,
            dont_inherit=True,
        )
        space: dict[str, Any] = {
            "__name__": __name__,  # a module that is loaded, where a dataclass looks for the types of its fields
            "__builtins__": {**vars(builtins), "__import__": _import},
        }
        if isinstance(statement, ast.Import | ast.ImportFrom) and not self._importable(statement):
            return self._imported(statement, name, stand_ins)
        # Names that its own body loads later, as a recursive function does, are itself.
        missing: dict[str, None] = {}
        for needed in sorted(set(_loaded(code)) - set(_binds(statement)) - set(dir(builtins)) - _OWN):
            if needed in stand_ins:
                self._cutter.stood_in.add(needed)
                space[needed] = stand_ins[needed]
                continue
            try:
                space[needed] = self.resolve(needed, stand_ins)
            except CannotCut as error:
                missing |= dict.fromkeys(error.needs)
        if missing:
            raise CannotCut(f"{name} of {self._path} needs {', '.join(missing)}", list(missing))
        exec(code, space)  # noqa: S102 - of a file whose checksum is declared
        return space[name]

    def _importable(self, statement: ast.Import | ast.ImportFrom) -> bool:
        modules = [alias.name for alias in statement.names]
        if isinstance(statement, ast.ImportFrom):
            modules = [] if statement.level else [str(statement.module)]
        return bool(modules) and all(module.partition(".")[0] in _IMPORTABLE for module in modules)

    def _imported(self, statement: ast.Import | ast.ImportFrom, name: str, stand_ins: Mapping[str, Any]) -> Any:
        """Return a name that another file of the sources has."""
        if isinstance(statement, ast.ImportFrom):
            here = self._path.split("/")[: -statement.level] if statement.level else []
            file = self._cutter.module(".".join([*here, *filter(None, [statement.module])]))
            if file is not None:
                theirs = next(alias.name for alias in statement.names if name in (alias.asname, alias.name))
                return file.resolve(theirs, stand_ins)
        raise CannotCut(f"{self._path} imports {name} from elsewhere", [f"{name} (of {_module(statement)})"])


def _module(statement: ast.Import | ast.ImportFrom) -> str:
    return statement.module or "." if isinstance(statement, ast.ImportFrom) else statement.names[0].name


def _import(name: str, *args: Any, **kwargs: Any) -> Any:
    """Import, for what is cut: what a bare machine has, and nothing else."""
    if name.partition(".")[0] not in _IMPORTABLE:
        raise CannotCut(f"it imports {name} when it is called")
    return __import__(name, *args, **kwargs)


def _binds(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement makes where it stands."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield statement.name
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        case ast.Assign():
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
            yield name
        case ast.Try() | ast.If():
            for part in statement.body:
                yield from _binds(part)


def _loaded(code: CodeType) -> Iterator[str]:
    """Yield the names that code loads from outside, in its functions too."""
    own = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_NAME"}
    for step in dis.get_instructions(code):
        if step.opname in _LOADS and step.argval not in own:
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _loaded(constant)
