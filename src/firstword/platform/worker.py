"""Workers and model runners: vLLM's for the CPU, with vLLM-Omni's hooks in front.

The order of bases matters: vLLM-Omni's runner decides what a step does (payloads between stages,
multimodal outputs), vLLM's CPU runner decides where tensors live (every device buffer is its CPU
twin, no streams, no graphs). Their common ancestor is vLLM's GPUModelRunner.
"""

from typing import ClassVar

import torch
from vllm.config import VllmConfig
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.cpu_worker import CPUWorker
from vllm_omni.worker.gpu_ar_model_runner import GPUARModelRunner
from vllm_omni.worker.gpu_generation_model_runner import GPUGenerationModelRunner
from vllm_omni.worker.gpu_model_runner import OmniGPUModelRunner
from vllm_omni.worker.mixins import OmniWorkerMixin


class _WithoutGraphs(OmniGPUModelRunner):
    """Fill in the one setting that a run without CUDA graphs leaves open."""

    def _init_talker_mtp(self) -> None:
        # vllm_omni/worker/gpu_model_runner.py:217 takes max(max_num_reqs, max_cudagraph_capture_size);
        # vLLM's CPU platform empties the list of capture sizes and leaves their maximum None.
        if self.compilation_config.max_cudagraph_capture_size is None:
            self.compilation_config.max_cudagraph_capture_size = 0
        super()._init_talker_mtp()


class CpuARModelRunner(_WithoutGraphs, GPUARModelRunner, CPUModelRunner):
    """Runs an autoregressive stage: thinker or talker, with its code predictor."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device) -> None:
        super().__init__(vllm_config, device)
        # forward_cpu (vllm/v1/sample/ops/topk_topp_sampler.py:195) draws for every row from the process's generator as
        # soon as one row has no seed; forward_native, which GPUs with seeded rows use too, draws each from its own.
        sampler = self.sampler.topk_topp_sampler
        sampler.forward = sampler.forward_native


class CpuGenerationModelRunner(_WithoutGraphs, GPUGenerationModelRunner, CPUModelRunner):
    """Runs a one-pass stage: code2wav or token2wav."""


class _CpuWorker(OmniWorkerMixin, CPUWorker):
    """vLLM's CPU worker with one of the runners above; built as vLLM-Omni's XPU workers are."""

    runner_cls: ClassVar[type[CPUModelRunner]]

    def init_device(self) -> None:
        # vLLM-Omni's hooks exist for the v1 runner only (xpu_ar_worker.py forces it likewise).
        self.use_v2_model_runner = False
        super().init_device()
        # The runner made by the parent class holds no weights yet; only its small input buffers are dropped.
        self.model_runner = self.runner_cls(self.vllm_config, self.device)


class CpuARWorker(_CpuWorker):
    """Worker of an autoregressive stage."""

    runner_cls = CpuARModelRunner


class CpuGenerationWorker(_CpuWorker):
    """Worker of a one-pass stage."""

    runner_cls = CpuGenerationModelRunner
