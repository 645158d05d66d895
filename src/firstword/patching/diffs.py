"""Unified diffs, applied exactly.

`patch` and `git apply` look for a place where a hunk fits. Here a hunk fits at its line or not at
all: a patch that still "applies" after upstream moved the code is a patch nobody has reviewed.
"""

import difflib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firstword.errors import Exit, FirstwordError


class DoesNotApply(Exception):  # noqa: N818 - a result, not a program error
    """A hunk's place or context differs from the file's.

    Args:
        line: Line number (from 1) in the file where it should have applied.
        why: What differs, in a few words.
    """

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


@dataclass(frozen=True)
class Hunk:
    """One block of a diff: lines `source` at `source_start` become `target` at `target_start`."""

    source_start: int
    target_start: int
    source: tuple[str, ...]
    target: tuple[str, ...]


@dataclass(frozen=True)
class FileChange:
    """All hunks of one patch for one file. `path` is relative to site-packages, with slashes."""

    path: str
    hunks: tuple[Hunk, ...]

    def reversed(self) -> "FileChange":
        """Return the change that undoes this one."""
        hunks = tuple(Hunk(h.target_start, h.source_start, h.target, h.source) for h in self.hunks)
        return FileChange(self.path, hunks)


def split_lines(text: str) -> list[str]:
    r"""Split at ``\n`` only, so that ``\r\n``, form feeds and a missing last newline survive."""
    return list(io.StringIO(text, newline="\n"))


def parse(text: str, name: str) -> tuple[FileChange, ...]:
    """Parse the diff part of a patch.

    Args:
        text: The diff, from its first ``---`` file line.
        name: The patch's name, for messages.

    Raises:
        FirstwordError: It is no unified diff, or it adds, removes or renames a file.
    """
    import unidiff  # here: the rest of this module needs the standard library alone

    def bad(why: str) -> FirstwordError:
        return FirstwordError(f"{name}: {why}", mend="correct the patch file", code=Exit.PATCHES)

    try:
        files = unidiff.PatchSet(io.StringIO(text, newline="\n"))
    except unidiff.UnidiffParseError as error:
        raise bad(f"not a unified diff: {str(error).strip()}") from None
    if not files:
        raise bad("changes no file")
    changes = []
    for file in files:
        path = str(file.path)
        if file.is_added_file or file.is_removed_file or file.is_rename or file.is_binary_file:
            raise bad(f"adds, removes or renames {path}; a patch may only change text")
        if path.startswith("/") or ".." in path.split("/"):
            raise bad(f"leaves site-packages: {path}")
        hunks = tuple(_hunk(h) for h in file)
        if any(not h.source or not h.target for h in hunks):
            raise bad(f"a hunk of {path} has no context")
        changes.append(FileChange(path, hunks))
    paths = [c.path for c in changes]
    if len(set(paths)) != len(paths):
        raise bad("names a file twice")
    return tuple(changes)


def _hunk(hunk: Any) -> Hunk:
    source: list[str] = []
    target: list[str] = []
    last: list[list[str]] = []
    for line in hunk:
        if line.line_type == "\\":
            # "\ No newline at end of file" belongs to the line before it.
            for side in last:
                side[-1] = side[-1].removesuffix("\n")
            continue
        if line.line_type == "" and line.source_line_no is None and line.target_line_no is None:
            continue  # an empty line after the hunk
        last = [side for side, there in ((source, not line.is_added), (target, not line.is_removed)) if there]
        for side in last:
            side.append(line.value)
    return Hunk(hunk.source_start, hunk.target_start, tuple(source), tuple(target))


def apply_change(change: FileChange, text: str, *, relocate: bool = False) -> str:
    """Return `text` with the change made.

    Args:
        change: The change.
        text: The whole file.
        relocate: Accept a hunk at another line: moved as far as the hunk before it, or where its
            source lines stand if they stand exactly once in the file. For trees without one patch
            of the middle and for moving the series to a new version; never for an environment.

    Raises:
        DoesNotApply: A hunk does not fit.
    """
    lines = split_lines(text)
    result: list[str] = []
    done = 0  # lines of the source already in `result`
    moved = 0
    for hunk in change.hunks:
        size = len(hunk.source)
        start = hunk.source_start - 1 + moved
        if tuple(lines[start : start + size]) != hunk.source:
            if not relocate:
                raise DoesNotApply(*_first_difference(lines, start, hunk.source))
            start = _only_place(lines, hunk)
            moved = start - (hunk.source_start - 1)
        if start < done:
            raise DoesNotApply(start + 1, "overlaps the hunk before it")
        result += lines[done:start]
        if not relocate and len(result) != hunk.target_start - 1:
            raise DoesNotApply(start + 1, f"its header says it becomes line {hunk.target_start}, not {len(result) + 1}")
        result += hunk.target
        done = start + size
    return "".join(result + lines[done:])


def _first_difference(lines: Sequence[str], start: int, source: Sequence[str]) -> tuple[int, str]:
    for offset, expected in enumerate(source):
        at = start + offset
        found = lines[at] if at < len(lines) else None
        if found != expected:
            return at + 1, f"expected {expected!r}, found {'the end of the file' if found is None else repr(found)}"
    raise AssertionError("no difference")


def _only_place(lines: Sequence[str], hunk: Hunk) -> int:
    size = len(hunk.source)
    places = [i for i in range(len(lines) - size + 1) if tuple(lines[i : i + size]) == hunk.source]
    if len(places) != 1:
        raise DoesNotApply(hunk.source_start, f"its context stands {len(places)} times in the file")
    return places[0]


def render(path: str, before: str, after: str) -> str:
    """Return the unified diff between two texts of one file, with three lines of context."""
    out = []
    for line in difflib.unified_diff(split_lines(before), split_lines(after), f"a/{path}", f"b/{path}"):
        out.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(out)
