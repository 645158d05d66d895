"""Read a deploy config and say what it resolves to."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firstword import documents, paths
from firstword.engine.config import schema, settings_yaml
from firstword.errors import Exit, FirstwordError


@dataclass(frozen=True)
class Stage:
    """One stage of a deploy config.

    Attributes:
        id: 0 for the talker or thinker, 1 for code2wav or token2wav.
        devices: Indices into the visible devices.
        settings: Every key of the stage, as the file gives it.
    """

    id: int
    devices: tuple[int, ...]
    settings: dict[str, Any] = field(hash=False)

    @property
    def kv_cache_bytes(self) -> int:
        """Bytes of KV cache."""
        return int(self.settings["kv_cache_memory_bytes"])


@dataclass(frozen=True)
class EngineConfig:
    """A checked deploy config.

    Attributes:
        path: The file, as ``--deploy-config`` takes it.
        family: ``qwen3-tts`` or ``step-audio-2``.
        shape: The file's name without its suffix.
        stages: In order of their ids.
        device: ``cpu`` or ``cuda``.
        gpus: How many GPUs the file counts on; 0 on a CPU.
        sha256: Of `resolved` as canonical JSON: the same for the same settings, whatever the comments.
    """

    path: Path
    family: str
    shape: str
    stages: tuple[Stage, ...]
    device: str
    gpus: int
    sha256: str
    _settings: dict[str, Any] = field(repr=False, hash=False, compare=False)

    def resolved(self) -> dict[str, Any]:
        """Return every setting of the file, as vLLM-Omni reads it."""
        settings: dict[str, Any] = json.loads(json.dumps(self._settings))
        return settings

    @property
    def speaks(self) -> bool:
        """Whether requests can ask for audio: not with recognition's thinker alone."""
        return bool(self._settings.get("pipeline") != "step_audio_2_asr")


def folder(family: str) -> Path:
    """Return the folder of a family's configs.

    Raises:
        FirstwordError: There is no such family.
    """
    if family not in schema.FAMILIES:
        raise FirstwordError(
            f"no engine configs for the family {family!r}",
            mend="use one of: " + ", ".join(schema.FAMILIES),
            code=Exit.CONFIG,
        )
    return paths.root() / "configs" / "engines" / family


def shapes(family: str) -> list[str]:
    """Return the names of a family's shipped configs, sorted.

    Raises:
        FirstwordError: There is none: the checkout is not whole.
    """
    found = sorted(path.stem for path in folder(family).glob("*.yaml"))
    if not found:
        raise FirstwordError(
            f"no deploy config lies in {folder(family)}",
            mend="restore that folder, or set FIRSTWORD_ROOT to a whole firstword checkout",
            code=Exit.CONFIG,
        )
    return found


def load(family: str, shape: str) -> EngineConfig:
    """Return a shipped config.

    Args:
        family: ``qwen3-tts`` or ``step-audio-2``.
        shape: A name of `shapes`, for example ``cpu`` or ``speech-1x80g``.

    Raises:
        FirstwordError: There is no such file, or it is not good.
    """
    path = folder(family) / f"{shape}.yaml"
    known = shapes(family)
    if shape not in known:
        raise FirstwordError(
            f"{family} has no shape {shape!r}",
            mend="pass --shape with one of: " + ", ".join(known),
            code=Exit.CONFIG,
        )
    return load_file(path, family)


def device_by_name(path: Path) -> str | None:
    """Return ``cpu`` or ``cuda`` for a file named as the shipped ones are, else None."""
    return {"cpu": "cpu", "1x80g": "cuda", "1x24g": "cuda", "2gpu": "cuda"}.get(path.stem.rpartition("-")[2])


def load_file(path: Path, family: str, device: str = "cuda") -> EngineConfig:
    """Return the config in any file.

    Args:
        path: The file.
        family: ``qwen3-tts`` or ``step-audio-2``.
        device: ``cpu`` or ``cuda``, for a file whose name does not tell as those of the shipped ones do.

    Raises:
        FirstwordError: It cannot be read, is no YAML, or holds something that vLLM-Omni or the model would not take.
    """
    examples = folder(family)
    fault = documents.state(path)
    try:
        text = "" if fault else path.read_text(encoding="utf-8")
    except OSError as error:
        fault = f"cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        fault = "is no text"
    if fault:
        raise FirstwordError(f"{path} {fault}", mend=f"name a file of {examples}, or none", code=Exit.CONFIG)
    path = path.resolve()
    try:
        settings = settings_yaml.parse(text)
    except ValueError as error:
        raise FirstwordError(
            f"{path}: {error}", mend=f"correct the file; {examples} holds ones that work", code=Exit.CONFIG
        ) from error
    found = schema.problems(settings, family)
    if found:
        raise FirstwordError(
            f"{path}: {'; '.join(found)}",
            mend=f"correct the file; {examples} holds ones that work",
            code=Exit.CONFIG,
        )
    stages = tuple(
        Stage(item["stage_id"], tuple(int(index) for index in item["devices"].split(",")), item)
        for item in settings["stages"]
    )
    device = device_by_name(path) or device
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":")).encode()
    return EngineConfig(
        path=path,
        family=family,
        shape=path.stem,
        stages=stages,
        device=device,
        gpus=0 if device == "cpu" else 1 + max(index for stage in stages for index in stage.devices),
        sha256=hashlib.sha256(canonical).hexdigest(),
        _settings=settings,
    )
