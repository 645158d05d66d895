"""The CPU platform for vLLM-Omni, found through the entry point group ``vllm_omni.platform_plugins``."""


def register() -> str | None:
    """Return the platform class for a CPU build of vLLM, None on any other: a GPU keeps vLLM-Omni's own platform."""
    from vllm.platforms import current_platform

    return "firstword.platform.cpu.CpuOmniPlatform" if current_platform.is_cpu() else None
