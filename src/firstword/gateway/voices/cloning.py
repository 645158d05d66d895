"""Which recording a request for speech is to be spoken like, and how the engine is given it.

An engine never gets an address, only a WAV in the request itself: what it may not fetch cannot be asked of it.
"""

import base64
import binascii
from functools import partial
from typing import Any

from firstword.gateway.audio.decoding import UnreadableError
from firstword.gateway.catalogue import Entry
from firstword.gateway.errors import ProblemError
from firstword.gateway.threads import Threads
from firstword.gateway.voices import recording
from firstword.gateway.voices.fetching import Fetching
from firstword.gateway.voices.store import ID, Voice, Voices, not_found

# Each is decoded, and perhaps fetched; no model here takes more than one.
_MOST_RECORDINGS = 4


def can_clone(entry: Entry | None) -> bool:
    """Return whether a model speaks like a recording."""
    return entry is not None and "ref_audio" in entry.speech_fields


class Cloning:
    """Gives engines recordings.

    Args:
        voices: Those that were uploaded.
        fetching: Gets what is named by its address.
        threads: For what computes.
    """

    def __init__(self, voices: Voices, fetching: Fetching, threads: Threads) -> None:
        self._voices, self._fetching, self._threads = voices, fetching, threads

    async def filled(self, body: dict[str, Any], entry: Entry | None, model: str) -> dict[str, Any]:
        """Return what the engine is asked, every recording in it as a WAV.

        Args:
            body: What it would be asked.
            entry: What is known of the model.
            model: Its id.

        Raises:
            ProblemError: The voice is no more (404), the model cannot clone, or a recording cannot be had, is
                none, or is a second one (400).
        """
        voice = await self._uploaded(body, entry, model)
        if voice is not None:
            return await self._as(voice, body)
        told = body.get("ref_audio")
        if told is None:
            return body
        if isinstance(told, list):
            if len(told) > _MOST_RECORDINGS:
                message = f"ref_audio: up to {_MOST_RECORDINGS} recordings, not {len(told)}"
                raise ProblemError(400, message, code="invalid_value", param="ref_audio")
            return body | {"ref_audio": [await self._inside(each) for each in told]}
        return body | {"ref_audio": await self._inside(told)}

    async def _uploaded(self, body: dict[str, Any], entry: Entry | None, model: str) -> Voice | None:
        """Return the uploaded voice that a request names, or None where it is another's."""
        named = body.get("voice")
        if not isinstance(named, str) or (entry is not None and named.lower() in entry.voices):
            return None
        voice = await self._threads.soon(partial(self._voices.find, named))
        if voice is None:
            if ID.fullmatch(named):
                raise not_found(named)
            return None
        if not can_clone(entry):
            raise ProblemError(
                400,
                f"voice: {named[:80]} is an uploaded voice, and {model} cannot clone; a Qwen3-TTS Base model can",
                code="unsupported_voice",
                param="voice",
            )
        second = next((name for name in ("ref_audio", "speaker_embedding") if name in body), None)
        if second is not None:
            message = f"{second}: {named[:80]} is an uploaded voice; send one or the other"
            raise ProblemError(400, message, code="invalid_value", param=second)
        return voice

    async def _as(self, voice: Voice, body: dict[str, Any]) -> dict[str, Any]:
        kept = await self._threads.soon(partial(self._voices.recording, voice))
        asked = {name: value for name, value in body.items() if name != "voice"}
        words = asked.get("ref_text") or voice.ref_text
        # Without its words a recording gives its voice alone.
        alone = asked.setdefault("x_vector_only_mode", words is None)
        if words is not None and not alone:
            asked["ref_text"] = words
        return asked | {"ref_audio": recording.data_url(kept)}

    async def _inside(self, told: str) -> str:
        data = _decoded(told) if told[:5].lower() == "data:" else await self._fetching.get(told)
        try:
            return recording.data_url(await self._threads.decode(partial(recording.to_wav, data)))
        except UnreadableError as error:
            raise ProblemError(400, f"ref_audio: {error}", code=error.code, param="ref_audio") from error


def _decoded(url: str) -> bytes:
    head, comma, data = url.partition(",")
    if comma and head.lower().endswith(";base64"):
        try:
            return base64.b64decode(data, validate=True)
        except (ValueError, binascii.Error):
            pass
    raise ProblemError(
        400, "ref_audio: a data URL is data:audio/wav;base64,…", code="invalid_reference", param="ref_audio"
    )
