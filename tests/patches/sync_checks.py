"""Checks on the sync counter: what it counts on the installed classes, and what gets past it (nothing may)."""

import contextlib
import importlib
import io
import os
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from firstword.bench.syncs import cuda, held, worker
from firstword.bench.syncs.catalogue import WORKLOADS
from firstword.bench.syncs.claims import counting
from firstword.bench.syncs.counting import ASYNC, READ, WRITE, Counts
from firstword.bench.syncs.held import CLAIMED, Held, release
from firstword.bench.syncs.workload import counted

CHECKPOINT = Path(os.environ["CHECKPOINT"])
SHORT = {READ: "read", WRITE: "write", ASYNC: "async"}


def _forget_the_shared_speech_tokenizer() -> None:
    """The waiting process taught it to remember, which needs memory of the host."""
    import s3tokenizer

    s3tokenizer.load_model("").__dict__.pop("quantize", None)


def count(workload: str) -> dict[str, Any]:
    """Count as the command does, with the comparison."""
    _forget_the_shared_speech_tokenizer()
    chosen = WORKLOADS[workload]
    return worker.count(chosen, CHECKPOINT.with_name(chosen.model))


# In which method of each path a read is planted.
_MODELS = "vllm_omni.model_executor.models"
_TALKER = f"{_MODELS}.qwen3_tts.qwen3_tts_talker"
_CODEC = f"{_MODELS}.qwen3_tts.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2"
PLACES = {
    "recognition, 8 requests": (f"{_MODELS}.step_audio2.step_audio2_thinker", "Adaptor", "forward"),
    "streamed speech": ("flashcosyvoice.modules.hifigan", "HiFTGenerator", "forward"),
    "decode step, 8 requests": (_TALKER, "Qwen3TTSTalkerForConditionalGeneration", "make_omni_output"),
    "code2wav step, 8 requests": (_CODEC, "Qwen3TTSTokenizerV2Decoder", "chunked_decode"),
    "reference": (_TALKER, "Qwen3TTSSpeakerEncoder", "forward"),
}


def planted(workload: str) -> dict[str, Any]:
    """Count with ``.item()`` in a method of the path: how often it is called, and how often the read is told."""
    _forget_the_shared_speech_tokenizer()
    chosen = WORKLOADS[workload]
    calls: list[bool] = []
    module, name, method = PLACES[workload]
    owner = getattr(importlib.import_module(module), name)
    original = getattr(owner, method)

    def reading(self: Any, *args: Any, **kwargs: Any) -> Any:
        tensor = next(x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor))
        tensor.sum().item()
        calls.append(held._counts._phase is not None)
        return original(self, *args, **kwargs)

    with mock.patch.object(owner, method, reading):
        _, counts = counted(chosen, CHECKPOINT.with_name(chosen.model))
    told: Counter[str] = Counter()
    for events in counts.events.values():
        for event, times in events.items():
            if "sync_checks.py" in event.where:
                told[event.line] += times
    return {"called while counting": sum(calls), "told": told}


# What can be asked of a tensor on the device, and what that is.
def _questions(t: torch.Tensor, one: torch.Tensor) -> dict[str, Any]:
    host = torch.ones(2, 3)
    mask = t > 2
    window = torch.ones(4, device=CLAIMED)
    return {
        "item": one.item,
        "tolist": t.tolist,
        "cpu": t.cpu,
        "to('cpu')": lambda: t.to("cpu"),
        "bool": lambda: bool(one),
        "if": lambda: 1 if one else 0,
        "int": lambda: int(one),
        "float": lambda: float(one),
        "index of a list": lambda: [1, 2][one],
        "range": lambda: list(range(one)),
        "slice end": lambda: t[:one],
        "slice of a slice": lambda: t[0, one:],
        "nonzero": t.nonzero,
        "where": lambda: torch.where(mask),
        "unique": t.unique,
        "masked selection": lambda: t[mask],
        "masked_select": lambda: t.masked_select(mask),
        "rows repeated by a tensor": lambda: t.repeat_interleave(torch.ones_like(t[:, 0], dtype=torch.long), 0),
        "equal": lambda: torch.equal(t, t),
        "in": lambda: 9.0 in t,
        "copied into the host's": lambda: host.copy_(t),
        "in a list for a tensor": lambda: torch.tensor([one]),
        "size of a new one": lambda: torch.zeros(one, device=CLAIMED),
        "formatted": lambda: f"{one:.0f}",
        "printed": lambda: repr(t),
        "max of numbers": lambda: max([one, one]),
        "istft": lambda: torch.istft(
            torch.stft(t.flatten(), 4, 1, window=window, return_complex=True), 4, 1, window=window
        ),
        "nanmedian": t.nanmedian,
        "synchronize": torch.cuda.synchronize,
        "event": lambda: torch.cuda.Event().synchronize(),
        "mask filled from the device": lambda: t.clone().__setitem__(mask, one.float()),
        # What makes the host wait for a copy to the device.
        "tensor from a list": lambda: torch.tensor([1, 2], device=CLAIMED),
        "to(device)": lambda: host.to(CLAIMED),
        "index by a list": lambda: t[[0, 1]],
        "new_tensor of a list": lambda: t.new_tensor([1.0, 2.0]),
        "cuda()": host.cuda,
        "element set to a number": lambda: t.clone().__setitem__((0, 0), 5.0),
        "row set from the host": lambda: t.clone().__setitem__(0, torch.ones(3)),
        # What does not wait.
        "to('cpu') without waiting": lambda: t.to("cpu", non_blocking=True),
        "copied into the host's without waiting": lambda: host.copy_(t, non_blocking=True),
        "cuda() without waiting": lambda: host.cuda(non_blocking=True),
        "to(device) without waiting": lambda: host.to(CLAIMED, non_blocking=True),
        # What needs nothing of the other side.
        "computed": lambda: (t @ t.T + 1).softmax(-1).sum(),
        "slice by numbers": lambda: t[:, 1:2],
        "gathered": lambda: t[one.reshape(1)],
        "row set to a number": lambda: t.clone().__setitem__(0, 5.0),
        "mask filled with a number": lambda: t.clone().__setitem__(mask, 5.0),
        "new on the device": lambda: torch.full((2,), 3.0, device=t.device),
        "with a number of the host": lambda: t * torch.tensor(2.0),
        "sampled": lambda: torch.multinomial(t.abs() + 1, 1),
        "same device": lambda: t.to(CLAIMED),
        "shape": lambda: (t.shape, t.dim(), t.numel(), t.dtype, t.device, t.is_cuda),
    }


def questions() -> dict[str, str]:
    """Ask each on its own, in inference mode and without; say what was counted."""
    answers: dict[str, str] = {}
    for mode in (torch.inference_mode, torch.no_grad):
        counts = Counts()
        with mode(), counting(counts):
            asked = _questions(
                torch.arange(6.0, device=CLAIMED).reshape(2, 3), torch.ones((), dtype=torch.long, device=CLAIMED)
            )
            for name, ask in asked.items():
                with counts.phase(name):
                    ask()
        for name, events in counts.events.items():
            told = ", ".join(sorted(f"{SHORT[e.kind]} {n}" for e, n in events.items())) or "nothing"
            assert answers.setdefault(name, told) == told, (name, mode)
    return answers


def out_of_reach() -> dict[str, str]:
    """Reach for the memory, mix with the host's tensors, call what nothing is known of; in a thread, too."""
    library = torch.library.Library("firstword_test", "FRAGMENT")
    library.define("peek(Tensor x) -> int")
    library.impl("peek", lambda x: int(x.sum()), "CPU")
    counts = Counts()
    found: dict[str, str] = {}
    with torch.inference_mode(), counting(counts):
        t = torch.ones(2, 3, device=CLAIMED)
        tries = {
            "numpy": t.numpy,
            "numpy.asarray": lambda: np.asarray(t),
            "memory address": t.data_ptr,
            "storage": t.untyped_storage,
            "saved": lambda: torch.save(t, io.BytesIO()),
            "shared as dlpack": lambda: torch.from_dlpack(t),
            "added to the host's": lambda: t + torch.ones(3),
            "joined with the host's": lambda: torch.cat([t, torch.ones(2, 3)]),
            "unknown operator": lambda: torch.ops.firstword_test.peek(t),
            "kernel that reads": lambda: torch.normal(t, t),
        }
        for name, attempt in tries.items():
            try:
                attempt()
                found[name] = "went on"
            except Exception as error:
                found[name] = type(error).__name__
        with counts.phase("thread"):
            thread = threading.Thread(target=lambda: t.sum().item())
            thread.start()
            thread.join()
        t.sum().item()  # outside of a phase
    found["counted in a thread"] = str(counts.total("thread", READ))
    found["not passed"] = ", ".join(counts.unpassed)
    return found


def same_object() -> dict[str, bool]:
    """What Python may rely on: in-place results, views of one memory, parameters."""
    with torch.inference_mode(), counting(Counts()):
        t = torch.zeros(2, 3, device=CLAIMED)
        view = t[0]
        layer = torch.nn.Linear(3, 2).to(CLAIMED)
        facts = {
            "in place is the same": t.add_(1) is t,
            "parameters are held": all(isinstance(p, Held) for p in layer.parameters()),
            "parameters stay parameters": all(isinstance(p, torch.nn.Parameter) for p in layer.parameters()),
            "no copy to the same device": t.to(CLAIMED) is t,
        }
        view.add_(1)
        t.t_()
        facts["views share memory"] = release(t).tolist() == [[2.0, 1.0]] * 3
        facts["turned in place"] = t.shape == (3, 2)
    return facts


def cuda_reports() -> dict[str, Any]:
    """Let warnings come as CUDA's do, twice from one line; others pass."""
    counts, others = Counts(), []

    def show(message: Any, *_: Any, **__: Any) -> None:
        others.append(str(message))

    @contextlib.contextmanager
    def quiet(counts: Counts, name: str) -> Iterator[None]:
        with counts.phase(name):
            yield

    warnings.showwarning = show
    with cuda._listening(counts), quiet(counts, "x"):
        for _ in range(2):
            warnings.warn("called a synchronizing CUDA operation (Triggered internally at …)", stacklevel=1)
        warnings.warn("something else", stacklevel=1)
    return {"counted": [counts.total("x", READ), len(counts.events["x"])], "others": others}


def seed_table_reads() -> dict[str, dict[str, int]]:
    from firstword.bench.seed_tables import command

    return {str(n): command.waits(16, n) for n in (1, 8)}


def seed_table_page(folder: str) -> dict[str, Any]:
    from firstword.bench.seed_tables import command

    with mock.patch.object(command, "REQUESTS", (1, 2)):
        code = command.measure(runs=1, to=Path(folder) / "t.json", doc=Path(folder) / "t.md")
    return {"code": code, "page": (Path(folder) / "t.md").read_text(), "json": (Path(folder) / "t.json").read_text()}
