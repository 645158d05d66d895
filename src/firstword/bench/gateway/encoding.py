"""What a second of sound costs to encode, by the gateway's own encoders and by the ``ffmpeg`` command."""

import resource
import shutil
import subprocess
import time

from firstword.acceptance.recording import vowels
from firstword.bench.gateway import chunks

_WAV_HEADER = 44


def measure(seconds: float) -> dict[str, dict[str, float | None]]:
    """Return for each format the CPU seconds of one second of sound, here and by ffmpeg (None where it is absent).

    Args:
        seconds: Of sound to encode; it comes in chunks as engines send them.
    """
    from firstword.gateway.audio.encoding import Transcoder
    from firstword.gateway.audio.formats import FORMATS

    second = vowels(1.0)[_WAV_HEADER:]
    sound = second * round(seconds)
    program = shutil.which("ffmpeg")
    found: dict[str, dict[str, float | None]] = {}
    for name, fmt in FORMATS.items():
        began = time.process_time()
        coder = Transcoder(fmt)
        for start in range(0, len(sound), chunks.SIZE):
            coder.feed(sound[start : start + chunks.SIZE])
        coder.finish()
        own = (time.process_time() - began) / seconds
        theirs = None
        if program and fmt.container:
            rate = ["-b:a", str(fmt.bit_rate)] if fmt.bit_rate else []
            command = [program, "-v", "error", "-f", "s16le", "-ar", "24000", "-ac", "1", "-i", "-", "-threads", "1"]
            theirs = _cpu([*command, "-c:a", fmt.codec, *rate, "-f", fmt.container, "-"], sound) / seconds
        found[name] = {"gateway": round(own, 6), "ffmpeg": None if theirs is None else round(theirs, 6)}
    return found


def _cpu(command: list[str], data: bytes) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=data, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
