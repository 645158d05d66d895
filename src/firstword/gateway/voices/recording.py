"""A recording of a voice, checked and made into what engines take: a WAV of 24 kHz, mono, signed 16 bit."""

import base64

import numpy as np

from firstword.gateway.audio import wav
from firstword.gateway.audio.decoding import Decoder, UnreadableError
from firstword.gateway.audio.formats import RATE

# vLLM-Omni's own limits (vllm_omni/entrypoints/openai/serving_speech.py).
LEAST_SECONDS, MOST_SECONDS = 1.0, 30.0
# -60 dBFS: what recognition takes for silence too.
_SILENT = 32768 * 10 ** (-60 / 20)


def to_wav(data: bytes) -> bytes:
    """Return a recording in any container as such a WAV. It computes, so it belongs into a thread.

    Raises:
        UnreadableError: It cannot be decoded, lasts under 1 s or over 30 s, or is silent.
    """
    decoder = Decoder(data, MOST_SECONDS, RATE)
    parts = []
    while (part := decoder.read()) is not None:
        parts.append(part)
    samples = np.concatenate(parts) if parts else np.zeros(0, np.int16)
    if len(samples) < LEAST_SECONDS * RATE:
        raise UnreadableError(
            "audio_too_short", f"it lasts {len(samples) / RATE:.2f} s; at least {LEAST_SECONDS:g} s of speech is needed"
        )
    if np.abs(samples.astype(np.int32)).max() < _SILENT:
        raise UnreadableError("silent_audio", "nothing in it is louder than -60 dBFS")
    body: bytes = samples.astype("<i2").tobytes()
    return wav.header(len(body)) + body


def data_url(recording: bytes) -> str:
    """Return a WAV as an engine is given it."""
    return "data:audio/wav;base64," + base64.b64encode(recording).decode()
