"""`CpuOmniPlatform`: vLLM-Omni's view of a machine without a GPU."""

import psutil
import torch
from vllm.platforms.cpu import CpuPlatform
from vllm_omni.platforms.interface import OmniPlatform, OmniPlatformEnum


class CpuOmniPlatform(OmniPlatform, CpuPlatform):
    """vLLM's CPU platform with what vLLM-Omni asks of a platform beside it.

    Stages run on vLLM's own CPU worker and model runner, with vLLM-Omni's hooks
    (`firstword.platform.worker`). Diffusion stages are not supported and say so.
    """

    _omni_enum = OmniPlatformEnum.OOT

    @classmethod
    def get_omni_ar_worker_cls(cls) -> str:
        """Return the worker of autoregressive stages (thinker, talker)."""
        return "firstword.platform.worker.CpuARWorker"

    @classmethod
    def get_omni_generation_worker_cls(cls) -> str:
        """Return the worker of one-pass stages (code2wav, token2wav)."""
        return "firstword.platform.worker.CpuGenerationWorker"

    @classmethod
    def get_default_stage_config_path(cls) -> str:
        """Return upstream's folder of deploy configs; `firstword serve` always names one of its own instead."""
        return "vllm_omni/deploy"

    @classmethod
    def get_diffusion_attn_backend_cls(
        cls, selected_backend: str | None, head_size: int, allow_trtllm_default: bool = False
    ) -> str:
        """Raise: no model served here has a diffusion stage."""
        raise NotImplementedError("the CPU platform serves speech models only; it has no diffusion stages")

    @classmethod
    def supports_torch_inductor(cls) -> bool:
        """Return False: compiling costs a minute per stage at start and more than it saves for short speech."""
        return False

    @classmethod
    def get_torch_device(cls, local_rank: int | None = None) -> torch.device:
        """Return the one CPU device, whatever the rank."""
        return torch.device("cpu")

    @classmethod
    def get_device_count(cls) -> int:
        """Return 1: every stage shares the machine's memory and cores."""
        return 1

    @classmethod
    def get_device_version(cls) -> str | None:
        """Return None: there is no driver."""
        return None

    @classmethod
    def synchronize(cls) -> None:
        """Do nothing: CPU kernels have finished when their call returns."""

    @classmethod
    def get_free_memory(cls, device: torch.device | None = None) -> int:
        """Return the bytes that can be taken without swapping."""
        return int(psutil.virtual_memory().available)

    @classmethod
    def get_device_memory(cls, device: torch.device | None = None) -> tuple[int, int]:
        """Return (free, total) bytes."""
        memory = psutil.virtual_memory()
        return int(memory.available), int(memory.total)
