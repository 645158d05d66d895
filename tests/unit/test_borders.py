"""The layout's borders: which part may import which."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src/firstword"

# part -> parts of firstword it may import beside itself and what stands at the top
MAY_IMPORT = {
    "acceptance": set(),
    "gateway": {"acceptance"},
    "native": set(),
    "patching": set(),
    "platform": set(),
    "synthetic": set(),
    "engine": {"acceptance", "patching"},
    "bench": {"acceptance", "gateway", "patching", "engine", "synthetic", "native"},
}
# packages that are only in an engine's environment
HEAVY = {"torch", "vllm", "vllm_omni", "transformers", "cosyvoice2", "flashcosyvoice", "s3tokenizer", "librosa"}
MAY_IMPORT_HEAVY = {"engine", "platform", "synthetic", "bench"}


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


PARTS = sorted(folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists())


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_only_what_it_may(part):
    allowed = MAY_IMPORT[part] | {part, "errors", "paths", "documents", "commands", "ending", "__version__"}
    for file in (PACKAGE / part).rglob("*.py"):
        for name in imports(file):
            words = name.split(".")
            if words[0] == "firstword" and len(words) > 1:
                assert words[1] in allowed, f"{file}: {name}"
            if words[0] in HEAVY:
                assert part in MAY_IMPORT_HEAVY, f"{file}: {name}"


def test_no_python_file_is_longer_than_500_lines():
    long = [str(f) for f in Path(__file__).parents[2].glob("[st]*/**/*.py") if len(f.read_text().splitlines()) > 500]
    assert long == []
