"""The three requests that a newcomer pastes. Standard library only."""


def text(url: str, speech: str, recognition: str, *, key: bool = False) -> str:
    """Return them for the models of one address.

    Args:
        url: The address.
        speech: A model that speaks; the published ones and the synthetic one have the same voices.
        recognition: A model that listens.
        key: Whether the address wants a key.
    """
    header = ' \\\n  -H "Authorization: Bearer $FIRSTWORD_API_KEY"' if key else ""
    first = "# a key: export FIRSTWORD_API_KEY=one of FIRSTWORD_API_KEYS\n\n" if key else ""
    return f"""\
{first}# 1. speech: text in, a WAV file out
curl -sf {url}/v1/audio/speech -H 'Content-Type: application/json'{header} \\
  -d '{{"model": "{speech}", "input": "Hello, world.", "voice": "vivian"}}' -o hello.wav

# 2. the same, streamed: the first samples arrive while the rest is still being made
curl -sfN {url}/v1/audio/speech -H 'Content-Type: application/json'{header} \\
  -d '{{"model": "{speech}", "input": "Hello, world.", "voice": "vivian",
       "response_format": "wav", "stream": true, "stream_format": "audio"}}' -o streamed.wav

# 3. recognition: the WAV made by the first request in, text out
printf '{{"model": "{recognition}", "modalities": ["text"], "messages": [{{"role": "user", "content":
  [{{"type": "input_audio", "input_audio": {{"format": "wav", "data": "%s"}}}}]}}]}}' "$(base64 -w0 hello.wav)" |
  curl -sf {url}/v1/chat/completions -H 'Content-Type: application/json'{header} -d @-
"""


SYNTHETIC = """\
The checkpoints are synthetic: real architectures, small made-up weights, so the voice is noise-like
and the transcript is made-up words."""
