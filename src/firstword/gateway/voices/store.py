"""Uploaded voices, kept in one folder: for each a WAV and a JSON that says whose it is.

vLLM-Omni keeps uploads too, but each engine its own, read only when it starts: a second replica would not
know them. Here any engine can be given any voice with the request, whatever was started anew meanwhile.
"""

import fcntl
import json
import logging
import os
import re
import secrets
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from firstword.gateway.errors import ProblemError

log = logging.getLogger(__name__)
ID = re.compile(r"voice_[0-9a-f]{24}")


class Voice(BaseModel):
    """One uploaded voice.

    Attributes:
        id: Made here; the only thing of a voice that is in a path.
        name: What people call it.
        consent: What the client told of the speaker's consent.
        created_at: Seconds since the epoch.
        ref_text: What is said in it, or None.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    consent: str
    created_at: int
    ref_text: str | None = None


class Voices:
    """The folder. Several gateways may share one; everything here waits for a disk, so it belongs into a thread.

    Args:
        folder: Made with the first voice.
        most: Voices that are kept.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most
        self._seen: tuple[int, dict[str, Voice]] = (0, {})

    def all(self) -> list[Voice]:
        """Return every voice, the oldest first."""
        return sorted(self._known().values(), key=lambda voice: (voice.created_at, voice.id))

    def find(self, named: str) -> Voice | None:
        """Return the voice of this id or, whatever its case, this name."""
        known = self._known()
        if named in known:
            return known[named]
        wanted = _folded(named)
        return next((voice for voice in known.values() if _folded(voice.name) == wanted), None)

    def recording(self, voice: Voice) -> bytes:
        """Return the WAV of a voice.

        Raises:
            ProblemError: It is gone.
        """
        try:
            return self._path(voice.id, "wav").read_bytes()
        except OSError as error:
            raise not_found(voice.name) from error

    def add(self, name: str, consent: str, ref_text: str | None, recording: bytes) -> Voice:
        """Keep a voice.

        Raises:
            ProblemError: The name is taken (409), there are as many as may be (400), or it cannot be written (503).
        """
        voice = Voice(
            id=f"voice_{secrets.token_hex(12)}",
            name=name,
            consent=consent,
            created_at=int(time.time()),
            ref_text=ref_text,
        )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._alone():
                if (taken := self.find(name)) is not None:
                    raise ProblemError(
                        409,
                        f"name: {name} is the voice {taken.id}; delete that, or choose another name",
                        code="voice_exists",
                        param="name",
                    )
                if len(self._known()) >= self._most:
                    raise ProblemError(
                        400, f"{self._most} voices are kept, which is the limit; delete one", code="too_many_voices"
                    )
                # A voice is there once its JSON is, which comes last.
                self._write(self._path(voice.id, "wav"), recording)
                self._write(self._path(voice.id, "json"), voice.model_dump_json().encode())
        except OSError as error:
            log.exception("a voice cannot be kept")
            raise ProblemError(
                503, f"The voice cannot be kept: {error.strerror}", code="voices_not_writable"
            ) from error
        return voice

    def remove(self, voice_id: str) -> bool:
        """Forget a voice; return whether there was one of this id."""
        voice = self._known().get(voice_id)
        if voice is None:
            return False
        with self._alone():
            try:
                self._path(voice.id, "json").unlink()
            except FileNotFoundError:
                return False
            finally:
                self._path(voice.id, "wav").unlink(missing_ok=True)
        return True

    def _known(self) -> dict[str, Voice]:
        try:
            changed = self._folder.stat().st_mtime_ns
        except OSError:
            return {}
        if self._seen[0] != changed:
            self._seen = (changed, {voice.id: voice for voice in self._read()})
        # A change in the tick of the last one would have the same time: what is so new is read again.
        if time.time_ns() - changed < 1_000_000_000:
            self._seen = (0, self._seen[1])
        return self._seen[1]

    def _read(self) -> Iterator[Voice]:
        for file in self._folder.glob("voice_*.json"):
            try:
                voice = Voice.model_validate(json.loads(file.read_bytes()))
            except (OSError, ValueError, ValidationError) as error:
                log.warning(
                    "a voice cannot be read", extra={"facts": {"file": file.name, "cause": type(error).__name__}}
                )
                continue
            if ID.fullmatch(voice.id) and file.stem == voice.id:
                yield voice

    def _path(self, voice_id: str, ending: str) -> Path:
        return self._folder / f"{voice_id}.{ending}"

    def _write(self, path: Path, data: bytes) -> None:
        """Write a file whole or not at all."""
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".new-", delete=False) as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink()
                raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one at a time change the folder, all gateways together."""
        with (self._folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def not_found(named: str) -> ProblemError:
    """Return the error of a request that names a voice that is not here."""
    return ProblemError(404, f"There is no uploaded voice {named[:80]}", code="voice_not_found", param="voice")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
