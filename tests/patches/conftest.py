"""Trees with and without a patch, and the process that runs checks on them."""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forks import Run, forks

from firstword import paths
from firstword.patching import Series, build_tree, load_series
from firstword.patching.environment import find_site_packages
from firstword.synthetic.command import make


@pytest.fixture(scope="session")
def series() -> Series:
    return load_series(paths.root() / "patches")


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    folder = paths.home() / "checkpoints/step-audio-2-mini-synthetic"
    make(folder.name, folder, 0, lambda _: None)
    base = folder.with_name("qwen3-tts-base-synthetic")  # speech_server finds it beside the other
    make(base.name, base, 0, lambda _: None)
    return folder


@pytest.fixture(scope="session")
def run(series: Series, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a check: on the patched packages, or with ``upto=`` or ``without=`` as in `build_tree`."""
    folder = tmp_path_factory.mktemp("trees")
    site_packages = find_site_packages(series.versions)
    trees = itertools.count()
    with forks(checkpoint, folder / "log") as processes:

        @functools.cache
        def tree(upto: str | None, without: str | None) -> Path:
            return build_tree(folder / str(next(trees)), site_packages, series, upto=upto, without=without)

        @functools.cache
        def run_check(check: str, *, upto: str | None = None, without: str | None = None, **arguments: int) -> Any:
            return processes.run(tree(upto, without), check, **arguments)

        yield run_check
