"""Where serving a model starts importing: the command line, the stages of the model's pipeline, flow.yaml.

Nothing here names what a model needs. vLLM-Omni's own tables say it: the registry of pipelines (stages,
their architectures, the functions between them) and the registries of architectures (their modules and
classes). The tables are read as source, because importing them means importing torch and vLLM.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from firstword.engine.preflight.phases import FIRST_SPEECH, STAGE_PROCESS, START, inspection
from firstword.engine.preflight.resolve import Resolver
from firstword.engine.preflight.walk import Start

PIPELINES = "vllm_omni.config.pipeline_registry"
REGISTRIES = {
    "vllm_omni.model_executor.models": "vllm_omni.model_executor.models.registry",
    "vllm.model_executor.models": "vllm.model_executor.models.registry",
}
# Their functions run before the server listens: `vllm serve --omni` passes through both, then the plugins.
ENTRIES = ("vllm.entrypoints.cli.main", "vllm_omni.entrypoints.cli.main", "vllm_omni.engine.arg_utils")
# What decodes and writes audio for every model; vLLM puts stand-ins under the libraries' names there.
AUDIO = (
    "vllm.multimodal.audio",
    "vllm.multimodal.media.audio",
    "vllm_omni.utils.audio",
    "vllm_omni.entrypoints.openai.audio_utils_mixin",
)
# Named by configuration or platform, imported in each stage's process.
PROCESSES = (
    "vllm_omni.engine.stage_engine_core_proc",
    "vllm_omni.distributed.omni_connectors.connectors.shm_connector",
)
WORKERS = {
    "cuda": ("vllm_omni.worker.gpu_ar_worker", "vllm_omni.worker.gpu_generation_worker"),
    "cpu": ("firstword.platform.cpu", "firstword.platform.worker"),
}


@dataclass(frozen=True)
class Stage:
    """A stage of a pipeline: its architecture, and the dotted functions that pass data to the next one."""

    number: int
    architecture: str
    functions: tuple[str, ...]


@dataclass
class Tables:
    """vLLM-Omni's tables, as far as a model needs them.

    Attributes:
        stages: The stages of the pipeline asked for; empty when the table does not know it.
        models: Architecture -> (module, class).
    """

    stages: list[Stage] = field(default_factory=list)
    models: dict[str, tuple[str, str]] = field(default_factory=dict)


def read_tables(resolver: Resolver, pipeline: str) -> Tables:
    """Return the tables' entries for one pipeline (``qwen3_tts``, ``step_audio_2``, ``step_audio_2_asr``)."""
    tables = Tables()
    for package, registry in REGISTRIES.items():
        for architecture, entry in _entries(_tree(resolver, registry)):
            tables.models.setdefault(architecture, (".".join([package, *entry[:-1]]), entry[-1]))
    tables.stages = _stages(resolver, pipeline)
    return tables


def starts(
    tables: Tables,
    *,
    device: str,
    architectures: Mapping[int, str],
    inner: Sequence[str],
    flow_classes: Sequence[str],
) -> Iterator[Start]:
    """Yield the starts of serving in the order in which they happen.

    Args:
        tables: From `read_tables`.
        device: ``cpu`` or ``cuda``.
        architectures: Stage number -> architecture, where the deploy config overrides the pipeline's.
        inner: Architectures that the checkpoint's configuration names inside another, e.g. its language model.
        flow_classes: Classes that flow.yaml names, as ``package.module.Class``.
    """
    for module in (*ENTRIES, *AUDIO):
        yield Start(module, START, "vllm serve --omni imports it")
    for stage in tables.stages:
        architecture = architectures.get(stage.number, stage.architecture)
        phase = inspection(stage.number, architecture)
        for name in dict.fromkeys([architecture, stage.architecture]):
            if name in tables.models:
                module, cls = tables.models[name]
                yield Start(module, phase, f"vLLM-Omni's registry names it for {name}", (cls,))
        for function in stage.functions:
            module, _, attribute = function.rpartition(".")
            yield Start(module, phase, f"stage {stage.number} of the pipeline names it", (attribute,))
    for name in inner:
        if name in tables.models:
            module, cls = tables.models[name]
            yield Start(module, STAGE_PROCESS, f"vLLM's registry names it for {name}", (cls,))
    for module in (*PROCESSES, *WORKERS[device]):
        yield Start(module, STAGE_PROCESS, "each stage's process imports it")
    for path in flow_classes:
        module, _, cls = path.rpartition(".")
        yield Start(module, FIRST_SPEECH, "flow.yaml names it", (cls,))


def own_packages(tables: Tables, flow_classes: Sequence[str]) -> tuple[str, ...]:
    """Return the modules and packages that belong to the model itself, not to the server around it."""
    own = set(AUDIO)
    for stage in tables.stages:
        if stage.architecture in tables.models:
            own.add(tables.models[stage.architecture][0].rpartition(".")[0])
        own.update(function.rpartition(".")[0] for function in stage.functions)
    own.update(path.partition(".")[0] for path in flow_classes)
    return (*sorted(own), "flashcosyvoice", "s3tokenizer", "firstword.platform")


def _tree(resolver: Resolver, module: str) -> ast.Module:
    found = resolver.find(module)
    if found is None or found.file is None:
        return ast.Module(body=[], type_ignores=[])
    try:
        return ast.parse(Path(found.file).read_bytes())
    except (SyntaxError, OSError):
        return ast.Module(body=[], type_ignores=[])


def _entries(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield ``architecture, (folders..., module, class)`` from the dictionaries of a registry."""
    for statement in tree.body:
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if not isinstance(value, ast.Dict):
            continue
        for key, item in zip(value.keys, value.values, strict=True):
            match key, item:
                case ast.Constant(value=str() as name), ast.Tuple(elts=parts):
                    texts = [part.value for part in parts if isinstance(part, ast.Constant)]
                    if len(texts) == len(parts) and all(isinstance(text, str) for text in texts):
                        yield name, tuple(str(text) for text in texts)


def _stages(resolver: Resolver, pipeline: str) -> list[Stage]:
    """Return the stages of a pipeline: from the registry's name for it to its module, to its definition."""
    registry = _tree(resolver, PIPELINES)
    variable = next((name for key, name in _names_in_dicts(registry) if key == pipeline), None)
    home = next(
        (
            statement.module
            for statement in registry.body
            if isinstance(statement, ast.ImportFrom) and any(alias.name == variable for alias in statement.names)
        ),
        None,
    )
    if variable is None or home is None:
        return []
    tree = _tree(resolver, home)
    constants = _constants(tree)
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if name == variable:
                found = (
                    node
                    for node in ast.walk(call)
                    if isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id == "StagePipelineConfig"
                )
                default = _text(_keyword(call, "model_arch"), constants)
                return [_stage(node, number, default, constants) for number, node in enumerate(found)]
    return []


def _stage(call: ast.Call, number: int, default: str, constants: Mapping[str, str]) -> Stage:
    texts = {keyword.arg: _text(keyword.value, constants) for keyword in call.keywords if keyword.arg}
    functions = tuple(text for key, text in texts.items() if key.endswith("_func") and "." in text)
    return Stage(number, texts.get("model_arch") or default, functions)


def _names_in_dicts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                match key, value:
                    case ast.Constant(value=str() as name), ast.Name(id=variable):
                        yield name, variable


def _constants(tree: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text)):
                found[name] = text
    return found


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _text(node: ast.expr | None, constants: Mapping[str, str]) -> str:
    """Return a string written as a literal or as an f-string of module constants, else an empty one."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, constants) for part in parts)
        case ast.FormattedValue(value=ast.Name(id=name)):
            return constants.get(name, "")
    return ""
