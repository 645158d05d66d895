"""Let code that asks for ``cuda:0`` have it: held tensors, streams that need no GPU, generators."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from firstword.bench.syncs import held
from firstword.bench.syncs.counting import READ, Counts
from firstword.bench.syncs.held import BEHIND, CLAIMED, Held, is_claimed


class _Functions(TorchFunctionMode):
    """Say the private device where ``cuda`` is asked for; keep what `held` knows of Python's questions."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if any(isinstance(arg, Held) for arg in args):
            special = held._SPECIAL.get(func)
            if special is not None:
                return special(*args, **kwargs)
        if func is torch.device:  # a name becomes what Python is told
            return func(*args, **kwargs)
        args = tuple(_behind(arg) for arg in args)
        if "device" in kwargs:
            kwargs["device"] = _behind(kwargs["device"])
        if func is torch.Tensor.cuda:  # tensor.cuda(device, non_blocking)
            func, args = torch.Tensor.to, (args[0],)
            kwargs["device"] = BEHIND
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)


def _behind(value: Any) -> Any:
    if isinstance(value, torch.device) or (isinstance(value, str) and value.partition(":")[0] == CLAIMED.type):
        return BEHIND if is_claimed(value) else value
    return value


class _Operators(TorchDispatchMode):
    """Operators without a held argument: those that make one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return held.operate(func, args, kwargs or {}, within=self)


class _Generator(torch.Generator):
    """A CPU generator: held tensors are computed there."""

    def __new__(cls, device: Any = "cpu") -> Any:
        made = super().__new__(cls, device="cpu")
        made.claims = is_claimed(device)
        return made

    @property
    def device(self) -> torch.device:
        return CLAIMED if self.claims else torch.device("cpu")


class _Stream:
    """Nothing runs beside the host here; what waits for the other is counted."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = CLAIMED

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def wait_stream(self, *_: Any) -> None:
        """One stream waits for another; the host does not."""

    wait_event = record_event = record = wait = wait_stream

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Wait on the host."""
        held._counts.note(READ, "wait for a stream or an event")


def _synchronize(*_: Any) -> None:
    held._counts.note(READ, "wait for the device")


@contextlib.contextmanager
def counting(counts: Counts) -> Iterator[Counts]:
    """Within, ``cuda:0`` is there, and what makes the host wait for it goes into `counts`.

    Not across threads: a thread that makes tensors on the device itself must enter this too. What it does
    with held tensors is counted.
    """
    before = held.count_into(counts)
    stream = _Stream()
    replaced = {
        "torch.Generator": _Generator,
        "torch.Event": _Stream,
        "torch.cuda.Event": _Stream,
        "torch.cuda.Stream": _Stream,
        "torch.cuda.stream": lambda stream: stream,
        "torch.cuda.current_stream": lambda *_: stream,
        "torch.cuda.default_stream": lambda *_: stream,
        "torch.cuda.set_device": lambda *_: None,
        "torch.cuda.synchronize": _synchronize,
        "torch.accelerator.synchronize": _synchronize,
        "torch.cuda.is_current_stream_capturing": lambda: False,
    }
    try:
        with contextlib.ExitStack() as stack:
            for name, value in replaced.items():
                stack.enter_context(mock.patch(name, value))
            stack.callback(
                torch.__future__.set_overwrite_module_params_on_conversion,
                torch.__future__.get_overwrite_module_params_on_conversion(),
            )
            torch.__future__.set_overwrite_module_params_on_conversion(True)  # a held parameter is another object
            stack.enter_context(_Functions())
            stack.enter_context(_Operators())
            yield counts
    finally:
        held.count_into(before)
