"""The three requests that a newcomer pastes. Standard library only."""


def text(url: str, *, key: bool = False) -> str:
    """Return them, by OpenAI's names, which mean whatever models are served there.

    Args:
        url: The address.
        key: Whether it wants a key.
    """
    header = ' -H "Authorization: Bearer $FIRSTWORD_API_KEY"' if key else ""
    first = "# a key: export FIRSTWORD_API_KEY=one of FIRSTWORD_API_KEYS\n\n" if key else ""
    return f"""\
{first}# 1. speech: text in, a WAV file out
curl -sS --fail-with-body {url}/v1/audio/speech{header} -H 'Content-Type: application/json' \\
  -d '{{"model": "tts-1", "input": "Hello, world.", "voice": "alloy", "response_format": "wav"}}' -o hello.wav

# 2. the same, streamed: the first samples arrive while the rest is still being made
curl -sSN --fail-with-body {url}/v1/audio/speech{header} -H 'Content-Type: application/json' \\
  -d '{{"model": "tts-1", "input": "Hello, world.", "voice": "alloy", "response_format": "wav",
       "stream_format": "audio"}}' -o streamed.wav

# 3. recognition: the WAV made by the first request in, text out
curl -sS --fail-with-body {url}/v1/audio/transcriptions{header} -F model=whisper-1 -F file=@hello.wav
"""


SYNTHETIC = """\
The checkpoints are synthetic: real architectures, small made-up weights, so the voice is noise-like
and the transcript is made-up words."""
