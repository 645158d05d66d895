"""The CPU platform: what vLLM-Omni resolves it to, and what its classes are made of."""

import inspect
import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
import torch

os.environ.setdefault("OMP_NUM_THREADS", "1")

from vllm.platforms import current_platform
from vllm.v1.sample.sampler import Sampler
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.cpu_worker import CPUWorker
from vllm_omni.platforms import current_omni_platform, resolve_current_omni_platform_cls_qualname
from vllm_omni.platforms.interface import OmniPlatform
from vllm_omni.worker.gpu_ar_model_runner import GPUARModelRunner
from vllm_omni.worker.gpu_model_runner import OmniGPUModelRunner

from firstword.platform import cpu, register, worker


def test_vllm_omni_finds_it_by_its_entry_point_and_chooses_it():
    (entry,) = [e for e in entry_points(group="vllm_omni.platform_plugins") if e.name == "firstword_cpu"]
    assert entry.load() is register
    assert resolve_current_omni_platform_cls_qualname() == "firstword.platform.cpu.CpuOmniPlatform"
    assert isinstance(current_omni_platform, cpu.CpuOmniPlatform)
    assert current_omni_platform.is_out_of_tree()
    assert current_platform.is_cpu()


def test_a_gpu_build_keeps_its_own_platform(monkeypatch):
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda _: False)
    assert register() is None


def test_every_method_that_the_interface_leaves_open_is_filled():
    """A method that upstream adds and leaves to platforms must be looked at here."""
    left_open = {
        name
        for name, member in inspect.getmembers(OmniPlatform, inspect.ismethod)
        if "raise NotImplementedError" in inspect.getsource(member) and name in vars(OmniPlatform)
    }
    assert left_open
    assert left_open <= set(vars(cpu.CpuOmniPlatform)), left_open - set(vars(cpu.CpuOmniPlatform))


def test_it_describes_this_machine():
    free, total = cpu.CpuOmniPlatform.get_device_memory()
    assert 0 < free <= total
    assert abs(cpu.CpuOmniPlatform.get_free_memory() - free) < 2e9
    assert cpu.CpuOmniPlatform.get_device_count() == 1
    assert cpu.CpuOmniPlatform.get_torch_device(3).type == "cpu"
    assert cpu.CpuOmniPlatform.get_device_version() is None
    assert not cpu.CpuOmniPlatform.supports_torch_inductor()
    cpu.CpuOmniPlatform.synchronize()
    with pytest.raises(NotImplementedError, match="no diffusion stages"):
        cpu.CpuOmniPlatform.get_diffusion_attn_backend_cls(None, 64)


@pytest.mark.parametrize("name", ["get_omni_ar_worker_cls", "get_omni_generation_worker_cls"])
def test_its_workers_are_vllms_cpu_workers_with_vllm_omnis_runners(name):
    from vllm.utils.import_utils import resolve_obj_by_qualname

    cls = resolve_obj_by_qualname(getattr(cpu.CpuOmniPlatform, name)())
    assert issubclass(cls, CPUWorker)
    assert issubclass(cls.runner_cls, CPUModelRunner)
    assert issubclass(cls.runner_cls, OmniGPUModelRunner)


@pytest.mark.parametrize("runner", [worker.CpuARModelRunner, worker.CpuGenerationModelRunner])
def test_vllm_omni_shadows_only_methods_that_hand_on_to_vllms_cpu_runner(runner):
    """Where both define a method, vLLM-Omni's must call super(): else a GPU's way of doing it would win."""
    shadowed = []
    for name, member in vars(CPUModelRunner).items():
        if inspect.isfunction(member):
            owner = next(cls for cls in runner.__mro__ if name in vars(cls))
            if owner is not CPUModelRunner:
                shadowed.append(name)
                assert "super()." in inspect.getsource(vars(owner)[name]), (name, owner)
    assert sorted(shadowed) == ["__init__", "_to_list", "load_model"]


def test_the_setting_left_open_without_graphs_is_filled_in():
    class Settings:
        max_cudagraph_capture_size = None

    class Runner(worker.CpuARModelRunner):
        def __init__(self):
            self.compilation_config = Settings()
            self.model = object()  # without a talker, the parent's method ends early

    runner = Runner()
    runner._init_talker_mtp()
    assert runner.compilation_config.max_cudagraph_capture_size == 0


def test_a_seeded_row_draws_the_same_among_rows_without_a_seed(monkeypatch):
    def with_a_sampler(runner, vllm_config, device):
        runner.sampler = Sampler()

    monkeypatch.setattr(GPUARModelRunner, "__init__", with_a_sampler)
    sampler = worker.CpuARModelRunner(None, torch.device("cpu")).sampler.topk_topp_sampler
    logits = torch.randn(1, 50, generator=torch.Generator().manual_seed(1))

    def draw(rows, seeded):
        generator = torch.Generator().manual_seed(7)
        drawn = [sampler(logits.repeat(rows, 1), {seeded: generator}, None, None)[0].tolist() for _ in range(20)]
        return [step[seeded] for step in drawn], [step[-1] for step in drawn]

    alone, _ = draw(1, 0)
    among, others = draw(3, 1)
    assert among == alone
    assert draw(3, 1)[1] != others  # what has no seed differs from time to time


def test_importing_the_plugin_imports_no_engine():
    code = "import sys, firstword.platform; assert not {'torch', 'vllm', 'vllm_omni'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
