"""The series: which patches there are, in which order, and what each says about itself."""

import datetime
import email.parser
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from firstword import documents
from firstword.errors import Exit, FirstwordError
from firstword.patching.diffs import FileChange, parse

SERIES = "series"
CHECKSUMS = "checksums.json"

# DEP-3's fields, then ours: which release it is for, which patches it needs, and when it can go.
FIELDS = (
    "Description",
    "Origin",
    "Bug",
    "Forwarded",
    "Author",
    "Last-Update",
    "Applied-Upstream",
    "Distribution",
    "Depends",
    "Until",
)
AUTHOR = "the firstword authors"
_NAME = re.compile(r"[a-z0-9-]+/\d{4}-[a-z0-9-]+\.patch")


@dataclass(frozen=True)
class Sums:
    """SHA-256 of one file, as released and with the whole series applied."""

    before: str
    after: str


@dataclass(frozen=True)
class Patch:
    """One patch file.

    Attributes:
        name: Its path below `patches/`, as in the series.
        header: Its fields, each on one line.
        head: The text before the diff, as it stands.
        changes: What it changes.
        sha256: Of the whole file.
    """

    name: str
    header: Mapping[str, str]
    head: str
    changes: tuple[FileChange, ...]
    sha256: str

    @property
    def subject(self) -> str:
        """First line of its description: what it mends."""
        description = str(email.parser.HeaderParser().parsestr(self.head)["Description"])
        return next(line.strip() for line in description.splitlines() if line.strip())

    @property
    def distribution(self) -> str:
        """Name of the distribution it changes."""
        return self.header["Distribution"].partition("==")[0]

    @property
    def version(self) -> str:
        """The only version it is for."""
        return self.header["Distribution"].partition("==")[2]

    @property
    def depends(self) -> tuple[str, ...]:
        """Names of the patches it needs."""
        value = self.header["Depends"]
        return () if value == "none" else tuple(part.strip() for part in value.split(","))


@dataclass(frozen=True)
class Series:
    """All patches in order, with the declared set of changed files."""

    root: Path
    patches: tuple[Patch, ...]
    checksums: Mapping[str, Mapping[str, Sums]]

    @cached_property
    def sha256(self) -> str:
        """Identity of the series: its order and every byte of its patches."""
        text = "".join(f"{p.name} {p.sha256}\n" for p in self.patches)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def versions(self) -> dict[str, str]:
        """Distribution name to the version that the series is for."""
        return {p.distribution: p.version for p in self.patches}

    @property
    def sums(self) -> dict[str, Sums]:
        """Path to checksums, over all distributions."""
        return {path: sums for files in self.checksums.values() for path, sums in files.items()}

    def patch(self, name: str) -> Patch:
        """Return a patch by its name, or by its file name if that is enough.

        Raises:
            FirstwordError: None or several have that name.
        """
        found = [p for p in self.patches if name in (p.name, p.name.rpartition("/")[2])]
        if len(found) != 1:
            raise FirstwordError(
                f"no patch {name} in the series" if not found else f"{name} names {len(found)} patches",
                mend="see `firstword patches list`",
                code=Exit.PATCHES,
            )
        return found[0]

    def upto(self, name: str) -> tuple[Patch, ...]:
        """Return the series up to and with a patch; of ``stock``, none."""
        if name == "stock":
            return ()
        return self.patches[: self.patches.index(self.patch(name)) + 1]

    def without(self, name: str) -> tuple[Patch, ...]:
        """Return the series without a patch and without all that need it."""
        gone = {self.patch(name).name}
        kept = []
        for patch in self.patches:
            if patch.name in gone or gone & set(patch.depends):
                gone.add(patch.name)
            else:
                kept.append(patch)
        return tuple(kept)


def sha256(data: bytes) -> str:
    """Return the hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def load_series(root: Path, *, strict: bool = True) -> Series:
    """Read and check `patches/`.

    Args:
        root: The folder that holds `series`.
        strict: Whether each patch must hold a diff, and `checksums.json` must be there and name just
            the files that the patches change. `refresh`, which writes both, says no.

    Raises:
        FirstwordError: A patch is missing, unreadable, incomplete in its header, out of order, or
            changes another set of files than declared.
    """
    try:
        lines = (root / SERIES).read_text("utf-8").splitlines()
    except OSError as error:
        raise _bad(
            f"cannot read {root / SERIES}: {error.strerror}", "set FIRSTWORD_ROOT to a firstword checkout"
        ) from None
    except UnicodeDecodeError:
        raise _bad(f"{root / SERIES}: not UTF-8") from None
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    patches: list[Patch] = []
    for name in names:
        if not _NAME.fullmatch(name):
            raise _bad(f"series: {name!r} is not DISTRIBUTION/NNNN-words.patch")
        patches.append(_load_patch(root, name, strict=strict))
        _check_place(patches)
    _check_stray(root, names)
    known = _load_checksums(root) if strict or (root / CHECKSUMS).exists() else {}
    series = Series(root, tuple(patches), known)
    if strict:
        _check_files(series)
    return series


def _bad(cause: str, mend: str = "correct the file named") -> FirstwordError:
    return FirstwordError(cause, mend=mend, code=Exit.PATCHES)


def _load_patch(root: Path, name: str, *, strict: bool) -> Patch:
    try:
        data = (root / name).read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise _bad(f"{name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _bad(f"{name}: not UTF-8") from None
    head, found, _ = text.partition("\n--- a/")
    if not found and strict:
        raise _bad(f"{name}: holds no diff")
    head = f"{head.rstrip()}\n"
    header = parse_header(head, name)
    changes = parse(text[len(head) :], name) if found else ()
    return Patch(name, header, head, changes, sha256(data))


def parse_header(head: str, name: str) -> dict[str, str]:
    """Return a patch's header fields.

    Raises:
        FirstwordError: A field is missing, empty, unknown, or not of its form.
    """
    fields, _, rest = head.partition("\n---\n")
    if rest:
        raise _bad(f"{name}: text between the header's end (---) and the diff")
    message = email.parser.HeaderParser().parsestr(fields)
    if str(message.get_payload()).strip():
        raise _bad(f"{name}: the header holds a line that is no field")
    header = {key: " ".join(str(value).split()) for key, value in message.items()}
    if len(header) != len(message.items()):
        raise _bad(f"{name}: a header field stands twice")
    missing = [field for field in FIELDS if not header.get(field)]
    unknown = [field for field in header if field not in FIELDS]
    if missing or unknown:
        parts = [
            f"{word} {', '.join(names)}" for word, names in (("lacks", missing), ("has unknown", unknown)) if names
        ]
        raise _bad(f"{name}: header {' and '.join(parts)}")
    distribution, _, version = header["Distribution"].partition("==")
    if not version or distribution != name.partition("/")[0]:
        raise _bad(f"{name}: Distribution must be {name.partition('/')[0]}==VERSION, is {header['Distribution']}")
    try:
        datetime.date.fromisoformat(header["Last-Update"])
    except ValueError:
        raise _bad(f"{name}: Last-Update is no date: {header['Last-Update']}") from None
    if header["Author"] != AUTHOR:
        raise _bad(f"{name}: Author must be {AUTHOR!r}")
    return header


def _check_place(patches: list[Patch]) -> None:
    *earlier, patch = patches
    names = {p.name for p in earlier}
    if patch.name in names:
        raise _bad(f"series: {patch.name} stands twice")
    for need in patch.depends:
        if need not in names:
            raise _bad(f"{patch.name}: Depends on {need}, which does not come earlier in the series")
    for other in earlier:
        if other.distribution == patch.distribution:
            if other.version != patch.version:
                raise _bad(f"{patch.name}: is for {patch.version}, {other.name} is for {other.version}")
            if other.name > patch.name:
                raise _bad(f"series: {patch.name} comes after {other.name}")


def _check_stray(root: Path, names: Iterable[str]) -> None:
    stray = {p.relative_to(root).as_posix() for p in root.glob("*/*.patch")} - set(names)
    if stray:
        raise _bad(f"series: does not name {', '.join(sorted(stray))}", "add it to patches/series or delete it")


def _load_checksums(root: Path) -> dict[str, dict[str, Sums]]:
    try:
        data = documents.read_json(root / CHECKSUMS)
        return {
            distribution: {path: Sums(str(s["before"]), str(s["after"])) for path, s in files.items()}
            for distribution, files in data.items()
        }
    except OSError as error:
        raise _bad(f"cannot read {root / CHECKSUMS}: {error.strerror}", "run `firstword patches refresh`") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise _bad(f"{root / CHECKSUMS} is not as refresh writes it", "run `firstword patches refresh`") from None


def _check_files(series: Series) -> None:
    changed: dict[str, set[str]] = {}
    for patch in series.patches:
        changed.setdefault(patch.header["Distribution"], set()).update(c.path for c in patch.changes)
    declared = {distribution: set(files) for distribution, files in series.checksums.items()}
    if changed == declared:
        return
    flat_changed = {(d, p) for d, files in changed.items() for p in files}
    flat_declared = {(d, p) for d, files in declared.items() for p in files}
    parts = [
        f"{word}: {', '.join(sorted(path for _, path in extra))}"
        for word, extra in (
            ("changed but not declared", flat_changed - flat_declared),
            ("declared but not changed", flat_declared - flat_changed),
        )
        if extra
    ]
    raise _bad(
        f"the patches change another set of files than {CHECKSUMS} declares ({'; '.join(parts)})",
        "run `firstword patches refresh` and review what it writes",
    )
