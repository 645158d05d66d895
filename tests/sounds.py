"""Real files to judge, made on the spot in every format."""

import io
import struct
import wave

import av
import numpy as np

RATE = 24000
TEXT = "The quick brown fox jumps over the lazy dog."  # about three seconds


def voice(seconds=3.0, *, rate=RATE, level=0.1, seed=0):
    """Noise with the envelope of syllables: float32, root mean square near ``level``."""
    generator = np.random.default_rng(seed)
    n = round(seconds * rate)
    tone = np.cumsum(generator.standard_normal(n))
    tone -= np.convolve(tone, np.ones(65) / 65, "same")
    envelope = 0.4 + 0.6 * np.abs(np.sin(np.arange(n) / rate * np.pi * 3))
    tone = tone * envelope
    return (tone * (level / tone.std())).astype(np.float32)


def to_pcm(samples):
    return (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def to_wav(samples, rate=RATE, channels=1):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(to_pcm(np.repeat(samples, channels)))
    return out.getvalue()


def to_wav_float(samples, rate=RATE):
    data = samples.astype("<f4").tobytes()
    return (
        struct.pack(
            "<4sI4s4sIHHIIHH4sI",
            b"RIFF",
            36 + len(data),
            b"WAVE",
            b"fmt ",
            16,
            3,
            1,
            rate,
            rate * 4,
            4,
            32,
            b"data",
            len(data),
        )
        + data
    )


def streamed(wav):
    """The same WAV with its lengths left open, as servers stream it."""
    return wav[:4] + b"\xff" * 4 + wav[8:40] + b"\xff" * 4 + wav[44:]


_CODECS = {"mp3": ("mp3", "libmp3lame"), "opus": ("ogg", "libopus"), "aac": ("adts", "aac"), "flac": ("flac", "flac")}


def encode(samples, fmt, *, rate=RATE, channels=1):
    """Encode mono float samples; several channels hold the same samples."""
    if fmt == "pcm":
        return to_pcm(np.repeat(samples, channels))
    if fmt == "wav":
        return to_wav(samples, rate, channels)
    container, codec = _CODECS[fmt]
    layout = "stereo" if channels == 2 else "mono"
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        stream = file.add_stream(codec, rate=rate, layout=layout)
        block = np.repeat(np.frombuffer(to_pcm(samples), "<i2"), channels)[None, :]
        frame = av.AudioFrame.from_ndarray(block, format="s16", layout=layout)
        frame.sample_rate = rate
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            file.mux(packet)
    return out.getvalue()
