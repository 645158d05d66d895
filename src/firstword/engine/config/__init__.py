"""Deploy configs: which there are, whether one is good, and whether it fits the machine."""

from firstword.engine.config.choice import choose_shape
from firstword.engine.config.devices import Device
from firstword.engine.config.files import EngineConfig, Stage, load, load_file, shapes
from firstword.engine.config.geometry import Geometry, of_checkpoint, of_sizes
from firstword.engine.config.memory import Plan, check_fits, memory_plan

__all__ = [
    "Device",
    "EngineConfig",
    "Geometry",
    "Plan",
    "Stage",
    "check_fits",
    "choose_shape",
    "load",
    "load_file",
    "memory_plan",
    "of_checkpoint",
    "of_sizes",
    "shapes",
]
