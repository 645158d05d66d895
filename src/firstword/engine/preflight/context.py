"""What is about to be served, where, and how to look at it."""

import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstword import documents, paths
from firstword.engine.preflight.installed import Installed
from firstword.engine.preflight.probes import Probes
from firstword.engine.preflight.resolve import Resolver, search_paths
from firstword.errors import FirstwordError

if TYPE_CHECKING:
    from firstword.engine.config import EngineConfig
    from firstword.patching import Manifest

QWEN3_TTS = "qwen3_tts"
SPEECH = "step_audio_2"
RECOGNITION = "step_audio_2_asr"
# Family -> vLLM-Omni's name of its pipeline, unless the deploy config names another.
PIPELINES = {"qwen3-tts": QWEN3_TTS, "step-audio-2": SPEECH}
ALL_PIPELINES = (QWEN3_TTS, SPEECH, RECOGNITION)


@dataclass(frozen=True)
class FilePin:
    """What a file of a checkpoint must be; None where that is not known."""

    size: int | None
    sha256: str | None


@dataclass(frozen=True)
class Context:
    """The question that preflight answers.

    Args:
        device: ``cpu`` or ``cuda``.
        family: ``qwen3-tts`` or ``step-audio-2``; None at image build, when both are meant.
        model_dir: The checkpoint; None when only the environment is asked about.
        deploy_config: The deploy config to serve it with.
        host: Where the server will listen.
        port: The same; None when nothing will be served now.
        deep: Import everything for real, and read every installed and model file against its checksum.
        manifest: Path in the checkpoint -> what it must be, for a pinned revision.
        site_packages: The environment's packages.
        python: Its interpreter.
        memory: Folder for what is remembered between runs, None for nothing.
        probes: How to ask the machine.
    """

    device: str
    family: str | None = None
    model_dir: Path | None = None
    deploy_config: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    deep: bool = False
    manifest: Mapping[str, FilePin] | None = None
    site_packages: Path = field(default_factory=lambda: Path(sysconfig.get_paths()["purelib"]))
    python: Path = field(default_factory=lambda: Path(sys.executable))
    memory: Path | None = None
    probes: Probes = field(default_factory=Probes)

    @cached_property
    def installed(self) -> Installed:
        """The environment's distributions."""
        return Installed(self.site_packages)

    @cached_property
    def resolver(self) -> Resolver:
        """The environment's modules."""
        return Resolver(search_paths(self.site_packages))

    @cached_property
    def lock(self) -> Path:
        """The lock that the environment is made from."""
        return paths.root() / "docker" / "requirements" / f"engine-{self.device}.txt"

    @cached_property
    def model_config(self) -> Mapping[str, Any]:
        """The checkpoint's config.json; empty when it cannot be read, which the model check reports."""
        try:
            read = documents.read_json(self.model_dir / "config.json") if self.model_dir else {}
        except (OSError, ValueError):
            return {}
        return read if isinstance(read, dict) else {}

    @cached_property
    def config(self) -> "EngineConfig | FirstwordError | None":
        """The deploy config, or what is wrong with it; None when there is none."""
        if self.deploy_config is None or self.family is None:
            return None
        try:
            from firstword.engine.config import load_file

            return load_file(self.deploy_config, self.family, self.device)
        except FirstwordError as error:
            return error
        except ImportError:  # PyYAML or jsonschema; the module check names it
            return None

    @property
    def settings(self) -> Mapping[str, Any]:
        """The deploy config's settings; empty without a good one."""
        config = self.config
        return {} if config is None or isinstance(config, FirstwordError) else config.resolved()

    @property
    def pipelines(self) -> tuple[str, ...]:
        """The pipelines to be served, as vLLM-Omni calls them: the deploy config's own, else the family's, else all."""
        if self.family is None:
            return ALL_PIPELINES
        named = self.settings.get("pipeline")
        return (named if named in ALL_PIPELINES else PIPELINES[self.family],)

    @property
    def speaks(self) -> bool:
        """Whether token2wav is needed: Step-Audio-2 is served, and not for recognition alone."""
        return SPEECH in self.pipelines

    @property
    def architectures(self) -> dict[int, str]:
        """Stage number -> architecture, where the deploy config sets it."""
        found = {}
        for stage in self.settings.get("stages", []):
            match stage:
                case {"stage_id": int() as number, "hf_overrides": {"architectures": [str() as name, *_]}}:
                    found[number] = name
        return found

    @property
    def inner_architectures(self) -> list[str]:
        """Architectures that the checkpoint's configuration names for its parts, e.g. its language model."""
        names: list[str] = []
        for part in self.model_config.values():
            match part:
                case {"architectures": [*found]}:
                    names += [name for name in found if isinstance(name, str)]
        return names

    @cached_property
    def patches(self) -> "Manifest | None":
        """What the patch series did to the environment; None when it was not applied or that cannot be read."""
        try:
            from firstword.patching import Manifest

            return Manifest.read(self.site_packages)
        except (FirstwordError, ImportError):  # the patch check says so
            return None

    @cached_property
    def patched_files(self) -> frozenset[str]:
        """The files that the patch check looks after, by path: where a manifest cannot be read, all of the series."""
        if self.patches is not None:
            return frozenset(self.patches.files)
        try:
            from firstword.patching import load_series, manifest_path

            if documents.state(manifest_path(self.site_packages)) == "is missing":
                return frozenset()
            return frozenset(load_series(paths.root() / "patches").sums)
        except (FirstwordError, ImportError):  # the patch check says so
            return frozenset()

    def install(self, missing: str, *, again: bool = False) -> str:
        """Return the command that puts a distribution back as the lock, and the patch series, say.

        Args:
            missing: The distribution.
            again: Whether it is installed, though not as it should be.
        """
        option = f" --reinstall-package {missing}" if again else ""
        command = f"uv pip install --python {self.python} --no-deps --require-hashes{option} -r {self.lock}"
        if self.patches is None or missing not in self.patches.distributions:
            return command
        manifest = self.site_packages / "firstword-patches.json"
        return f"{command} && rm {manifest} && firstword patches apply --site-packages {self.site_packages}"
