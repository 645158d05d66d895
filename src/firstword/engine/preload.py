"""What a stage imports anyway, imported once, before the fork. Nothing here may start a thread or read a model."""

import vllm_omni.engine.stage_engine_core_proc  # noqa: F401
