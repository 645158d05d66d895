"""Models: which there are, where they lie, and whether they are what was published."""

from firstword.engine.models.catalog import Entry, get, names
from firstword.engine.models.checkpoint import Checkpoint, recognise
from firstword.engine.models.folders import models_folder
from firstword.engine.models.resolution import describe, resolve

__all__ = ["Checkpoint", "Entry", "describe", "get", "models_folder", "names", "recognise", "resolve"]
