"""Read modules' sources, remembering between runs what each text said.

Parsing the 1,400 modules that an engine imports takes three seconds; the texts rarely change. The memory is
keyed by the SHA-256 of a text, so that it can't be stale, and losing it costs only time.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from firstword import documents
from firstword.engine.preflight import imports
from firstword.engine.preflight.imports import Guard, Import, Source
from firstword.engine.preflight.resolve import Module


class Sources:
    """Reads sources through a memory in ``folder``; without a folder nothing is kept.

    Attributes:
        digests: File -> SHA-256 of each source read (hexadecimal).
    """

    def __init__(self, device: str, folder: Path | None) -> None:
        self.device = device
        self.digests: dict[str, str] = {}
        self._file = folder / f"imports-{_digest(Path(imports.__file__).read_bytes())[:12]}.json" if folder else None
        self._known: dict[str, list[object]] = _load(self._file)
        self._new: dict[str, list[object]] = {}

    def read(self, module: Module) -> Source | None:
        """Return what a module's source says, None for what has none (a namespace, an extension).

        Raises:
            OSError: The file cannot be read.
            SyntaxError: It is not Python.
            ValueError: It holds a null byte.
        """
        if module.file is None or not module.is_source:
            return None
        text = Path(module.file).read_bytes()
        digest = self.digests[module.file] = _digest(text)
        key = f"{digest} {module.name} {self.device}"
        known = self._known.get(key)
        if known is not None:
            return _decode(known)
        source = imports.read(text, module.name, is_package=module.is_package, device=self.device)
        self._new[key] = _encode(source)
        return source

    def save(self) -> None:
        """Keep what was learnt; a folder that can't be written to is no failure."""
        if self._file is None or not self._new:
            return
        part = self._file.with_suffix(f".{os.getpid()}.part")
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(self._known | self._new, separators=(",", ":")))
            part.replace(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink()


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _load(file: Path | None) -> dict[str, list[object]]:
    if file is None:
        return {}
    try:
        known = documents.read_json(file)
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _encode(source: Source) -> list[object]:
    rows = [[item.module, item.names, item.lazy, item.guard.value] for item in source.imports]
    return [rows, sorted(source.names), sorted(source.classes), source.open_ended]


def _decode(known: list[object]) -> Source:
    rows, names, classes, open_ended = known
    return Source(list(_imports(rows)), set(names), set(classes), bool(open_ended))  # type: ignore[call-overload]


def _imports(rows: object) -> Iterator[Import]:
    for module, names, lazy, guard in rows:  # type: ignore[attr-defined]
        yield Import(module, tuple(names), lazy, Guard(guard))
