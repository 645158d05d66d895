"""Whether a checkpoint is whole, judged without reading its weights."""

from firstword.engine.preflight.model.check import model_files

__all__ = ["model_files"]
