"""flow.yaml is code: hyperpyyaml imports and calls whatever its tags name. Look at the tags before it does."""

from dataclasses import dataclass
from pathlib import Path

from firstword import documents

# All that Step-Audio-2's flow.yaml needs. What else it names would run with the engine's rights.
ALLOWED = (
    "cosyvoice2.flow.flow.CausalMaskedDiffWithXvec",
    "cosyvoice2.transformer.upsample_encoder_v2.UpsampleConformerEncoderV2",
    "cosyvoice2.flow.flow_matching.CausalConditionalCFM",
    "cosyvoice2.flow.decoder_dit.DiT",
)
DEEPEST = 50  # the model's file has 4 levels; PyYAML's time grows with the square of the depth
_NAMING = ("!new:", "!name:", "!apply:", "!module:", "!applyref:")
_PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "seq", "map")}


@dataclass(frozen=True)
class FlowYaml:
    """What a flow.yaml would run.

    Attributes:
        classes: Classes and functions it names, in order, all on the allow-list.
        refused: Tags, and values that hyperpyyaml would evaluate, which must not be followed.
        error: Why it is not YAML, or None.
    """

    classes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    error: str | None = None


def read_flow_yaml(path: Path) -> FlowYaml:
    """Return what the file's tags name, without following any.

    Beside tags hyperpyyaml evaluates every text that starts with ``(``: it loads it with PyYAML's unsafe
    loader (hyperpyyaml 1.2.3, ``_make_tuple``). ``!ref``, ``!copy`` and ``!include:`` build new text from
    parts, so none of them is let through either; the model's file needs none.

    Raises:
        OSError: The file cannot be read.
        ImportError: PyYAML is missing.
    """
    import yaml

    fault = documents.state(path)
    if fault not in (None, "is empty"):
        raise OSError(f"{path} {fault}")
    classes: list[str] = []
    refused: list[str] = []
    depth = 0
    try:
        for event in yaml.parse(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                return FlowYaml(error=f"it is nested deeper than {DEEPEST} levels")
            if isinstance(event, yaml.DocumentStartEvent) and event.tags:
                refused.append("%TAG")
            if isinstance(event, yaml.ScalarEvent) and event.value.lstrip().startswith(("(", "!")):
                refused.append(event.value.strip())
            tag = getattr(event, "tag", None)
            if tag is None or tag in _PLAIN:
                continue
            name = next((tag.removeprefix(start) for start in _NAMING if tag.startswith(start)), None)
            if name in ALLOWED:
                classes.append(name)
            else:
                refused.append(tag)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        return FlowYaml(error=" ".join(str(error).split()))
    return FlowYaml(tuple(dict.fromkeys(classes)), tuple(dict.fromkeys(refused)))
