"""Where checkpoints lie."""

from pathlib import Path

from firstword import paths


def models_folder(cache: Path | None = None) -> Path:
    """Return the folder that downloaded models lie in: ``cache``, else ``models/`` in firstword's home."""
    return cache if cache is not None else paths.home() / "models"


def synthetic_folder(name: str) -> Path:
    """Return where a synthetic checkpoint is looked for by its name."""
    return paths.home() / "checkpoints" / name
