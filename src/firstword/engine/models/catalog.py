"""Every model by name: the published ones, and the synthetic ones that need no download."""

import difflib
from dataclasses import dataclass

from firstword.engine.models import locks
from firstword.errors import Exit, FirstwordError

# name -> (family, kind); made by `firstword synthetic`.
SYNTHETIC: dict[str, tuple[str, str]] = {
    "qwen3-tts-customvoice-synthetic": ("qwen3-tts", "custom_voice"),
    "qwen3-tts-voicedesign-synthetic": ("qwen3-tts", "voice_design"),
    "qwen3-tts-base-synthetic": ("qwen3-tts", "base"),
    "step-audio-2-mini-synthetic": ("step-audio-2", "mini"),
}


@dataclass(frozen=True)
class Entry:
    """One model.

    Attributes:
        name: What ``firstword serve`` takes.
        family: ``qwen3-tts`` or ``step-audio-2``.
        kind: What it can do; see `firstword.engine.models.checkpoint.KINDS`.
        synthetic: Made on the spot, voice noise-like; otherwise published weights.
        licence: SPDX identifier.
        lock: The published model's lock, None for a synthetic one.
    """

    name: str
    family: str
    kind: str
    synthetic: bool
    licence: str
    lock: locks.Lock | None


def names() -> list[str]:
    """Return every name, the published models first."""
    return [*locks.names(), *SYNTHETIC]


def find(name: str) -> Entry | None:
    """Return a model by its name, or by its repository on the hub; None when there is none."""
    if name in SYNTHETIC:
        family, kind = SYNTHETIC[name]
        return Entry(name, family, kind, synthetic=True, licence="Apache-2.0", lock=None)
    known = locks.names()
    # Of a name its own lock is read; of a repository all, since any may be it. A folder's path is neither.
    may_be = [name] if name in known else known if "/" in name and not name.startswith((".", "/", "~")) else []
    for lock in map(locks.load, may_be):
        if name in (lock.name, lock.repository):
            return Entry(lock.name, lock.family, lock.kind, synthetic=False, licence=lock.licence, lock=lock)
    return None


def get(name: str) -> Entry:
    """Return a model by its name, or by its repository on the hub.

    Raises:
        FirstwordError: There is none; the mend lists the nearest names.
    """
    entry = find(name)
    if entry is not None:
        return entry
    near = difflib.get_close_matches(name.lower().rpartition("/")[2], names(), n=3, cutoff=0.4) or names()
    raise FirstwordError(
        f"no model is called {name[:100]!r}{'...' * (len(name) > 100)}, and there is no such folder",
        mend="use one of: " + ", ".join(near) + "; `firstword models list` shows all",
        code=Exit.MODEL_UNKNOWN,
    )
