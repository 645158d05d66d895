"""Which kinds of request a model is for, told from its name. Standard library only.

The probe must know this of a server that it only has an address of, so the table stands here and
not in the engine package. Names are the catalogue's, the hub's, or a checkpoint folder's.
"""

import re

SPEECH = "speech"
VOICE_DESIGN = "voice-design"
VOICE_CLONE = "voice-clone"
TRANSCRIPTION = "transcription"
SPOKEN_ANSWER = "spoken-answer"
ALL = (SPEECH, VOICE_DESIGN, VOICE_CLONE, TRANSCRIPTION, SPOKEN_ANSWER)

_BY_NAME: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"qwen3-tts\S*customvoice", (SPEECH,)),
    (r"qwen3-tts\S*voicedesign", (VOICE_DESIGN,)),
    (r"qwen3-tts\S*base", (VOICE_CLONE,)),
    (r"step-audio-2", (SPEECH, TRANSCRIPTION, SPOKEN_ANSWER)),
)


def kinds_of(*names: str, has_audio_out: bool = True) -> tuple[str, ...]:
    """Return the kinds of request a model is for, or an empty tuple for a model that no name tells of.

    Args:
        *names: What the model is called: its id, its checkpoint folder; the first known one counts.
        has_audio_out: Whether the server can make sound; Step-Audio-2 can be served without.
    """
    for name in names:
        for pattern, kinds in _BY_NAME:
            if re.search(pattern, name.lower().replace("_", "-")):
                return kinds if has_audio_out else tuple(kind for kind in kinds if kind == TRANSCRIPTION)
    return ()
