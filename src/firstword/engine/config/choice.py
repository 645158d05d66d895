"""Choose a config by the devices that are present."""

from collections.abc import Sequence

from firstword.engine.config.devices import GIB, Device, gpus

# An 80 GB GPU reports 79 to 80 GiB; both models need 58 of them in their 1x80g shapes (computed).
BOTH_MODELS = 72 * GIB
# Step-Audio-2 with speech needs 36 GiB (computed): a 40 GB GPU holds it alone.
SPEECH_ALONE = 37 * GIB


def choose_shape(family: str, devices: Sequence[Device], *, built_for: str = "cpu") -> str:
    """Return the name of the config that suits ``devices``; `check_fits` then says whether it really fits.

    - no GPU: the CPU; in an environment built for GPUs ``1x80g``, of which the preflight then says what is missing;
    - a GPU of 80 GB or more: ``1x80g``, which leaves room for the other model;
    - several smaller ones: ``2gpu``;
    - one smaller one: Qwen3-TTS in ``1x24g``; Step-Audio-2 with speech where 37 GiB allow it, else recognition only.

    Args:
        family: ``qwen3-tts`` or ``step-audio-2``.
        devices: The visible devices.
        built_for: ``cuda`` or ``cpu``: what the environment's packages are for.
    """
    found = gpus(tuple(devices))
    speech = "" if family == "qwen3-tts" else "speech-"
    if not found:
        return f"{speech}1x80g" if built_for == "cuda" else f"{speech}cpu"
    if found[0].total >= BOTH_MODELS:
        return f"{speech}1x80g"
    if len(found) > 1:
        return f"{speech}2gpu"
    if family == "qwen3-tts":
        return "1x24g"
    return "speech-1x80g" if found[0].total >= SPEECH_ALONE else "asr-1x24g"
