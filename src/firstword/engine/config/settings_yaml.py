"""Read the YAML of a deploy config: whatever the text holds, plain settings come, or one ``ValueError``.

A key that stands twice is refused (YAML itself takes the last), and so is every value that has no JSON: dates, bytes,
sets, numbers that are none, aliases that hold themselves. vLLM-Omni reads the file with another loader (OmegaConf),
which takes some of these for something else.
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

DEEPEST = 50  # shipped files have 5 levels; PyYAML's time grows with the square of the depth, its parser recurses
MOST = 20_000  # values, aliases followed; shipped files have about 100
LARGEST = 2**63


def parse(text: str) -> Any:
    """Return the settings in ``text``: None, truth values, numbers, texts, lists, and tables whose keys are texts.

    Raises:
        ValueError: It is not YAML, or holds something else; the message says what, and where that is known.
        ImportError: PyYAML is missing.
    """
    import yaml

    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError(f"line {event.start_mark.line + 1} is nested deeper than {DEEPEST} levels")
        settings = yaml.load(text, Loader=_loader())  # noqa: S506  # a SafeLoader, below
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        problem = _short(getattr(error, "problem", None) or str(error))
        what = "it holds no setting" if isinstance(error, yaml.constructor.ConstructorError) else "it is not YAML"
        raise ValueError(f"{what}{where}: {problem}") from error
    for fault in _faults(settings):
        raise ValueError(fault)
    return settings


def _faults(settings: Any) -> Iterator[str]:
    """Yield what is no plain setting."""
    pending = [(settings, "the file", 0)]
    count = 0
    while pending:
        value, place, depth = pending.pop()
        count += 1
        if count > MOST or depth > DEEPEST:
            yield f"it holds more than {MOST} values, or is nested deeper than {DEEPEST} levels, aliases followed"
            return
        inside = "" if place == "the file" else f"{place}."
        match value:
            case dict():
                for key, item in value.items():
                    if not isinstance(key, str):
                        yield f"the key {_short(key)} in {place} is no text; put it in quotes"
                    pending.append((item, f"{inside}{_short(key)}", depth + 1))
            case list():
                pending += [(item, f"{inside}[{at}]".replace(".[", "["), depth + 1) for at, item in enumerate(value)]
            case float() if not math.isfinite(value):
                yield f"{place} is {value}, which is no number"
            case int() if abs(value) >= LARGEST:
                yield f"{place} is a number of more than 63 bits"
            case None | str() | bool() | int() | float():
                pass
            case _:
                yield f"{place} is a {type(value).__name__}, which is no setting; put it in quotes if a text is meant"


def _short(value: object) -> str:
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= 200 else f"{text[:200]}..."


@cache
def _loader() -> Any:
    """Return PyYAML's safe loader, made to refuse a key that stands twice and to name what it cannot make."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def construct_object(self, node: Any, deep: bool = False) -> Any:  # PyYAML's own
            try:
                return super().construct_object(node, deep)
            except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
                # 2024-99-99, a number of 5000 digits, "!!bool maybe": PyYAML lets through what Python raises.
                what = f"{_short(node.value)[:40]!r} is no {node.tag.rpartition(':')[2]}"
                raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from error

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # "<<: *base"; what stands beside it comes first
            key = loader.construct_object(key_node, deep=True)
            if isinstance(key, dict | list | set):
                raise yaml.constructor.ConstructorError(None, None, "a key that is no text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        result: dict[Any, Any] = yaml.SafeLoader.construct_mapping(loader, node, deep=True)
        return result

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return Loader
