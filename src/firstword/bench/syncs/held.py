"""A tensor that says it is on a GPU, and whose data the host gets only in ways that are counted.

To Python it says ``cuda:0``. To PyTorch's C++ it is on the private device, for which there is no kernel:
so what reaches C++ as "bring it to the CPU" is a copy there as it is on CUDA. It has no storage of its
own: code that would reach past the counter to its memory fails. Each operator call arrives in
`operate`, which counts it and computes with the CPU tensors inside, with CPU kernels: the results are
those of a plain run, bit for bit.

`torch.Tensor._make_wrapper_subclass` is what PyTorch's own FakeTensor and DTensor are made of.
"""

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from firstword.bench.syncs import rules
from firstword.bench.syncs.counting import READ, Counts

CLAIMED = torch.device("cuda", 0)  # what Python is told
BEHIND = torch.device("privateuseone", 0)  # what C++ is told

_NOTHING = nullcontext()
_MADE_OF_OTHERS = torch._C.DispatchKey.CompositeImplicitAutograd

_counts = Counts()
_now = threading.local()


class Held(torch.Tensor):
    """See the module."""

    _inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        """Return a tensor of the same description as `inner`, around it."""
        with torch.inference_mode(False):  # PyTorch makes views, in that mode too, of tensors made outside of it
            held = torch.Tensor._make_wrapper_subclass(
                cls,
                inner.size(),
                strides=inner.stride(),
                storage_offset=inner.storage_offset(),
                dtype=inner.dtype,
                device=BEHIND,
                requires_grad=False,
            )
        held._inner = inner
        return held

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        special = _SPECIAL.get(func)
        if special is not None:
            return special(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return operate(func, args, kwargs or {})


def count_into(counts: Counts) -> Counts:
    """Count into `counts` from now on, in each thread; return where it was counted before."""
    global _counts
    before, _counts = _counts, counts
    return before


def hold(value: Any) -> Any:
    """Return a tensor, or a structure of them, as if it were on the device; nothing is counted."""
    return tree_map(lambda t: Held(t) if isinstance(t, torch.Tensor) and not isinstance(t, Held) else t, value)


def release(value: Any) -> Any:
    """Return the CPU tensors inside, for looking at results; nothing is counted."""
    return tree_map(lambda t: t._inner if isinstance(t, Held) else t, value)


def is_claimed(device: Any) -> bool:
    """Whether a device, or its name, is the one that held tensors are on."""
    if isinstance(device, str):
        device = torch.device(device)
    return isinstance(device, torch.device) and device.type in (CLAIMED.type, BEHIND.type)


def operate(func: Any, args: Any, kwargs: dict[str, Any], within: AbstractContextManager[Any] = _NOTHING) -> Any:
    """Run one operator on held tensors, or one that makes them, and count what it makes the host wait for.

    `within` is what the parts of an operator that is made of others are to run in.
    """
    flat, spec = tree_flatten((args, kwargs))
    held = [x for x in flat if isinstance(x, Held)]
    if not held and not any(isinstance(x, torch.device) and is_claimed(x) for x in flat):
        return func(*args, **kwargs)
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _MADE_OF_OTHERS):
        # In inference mode PyTorch hands these over whole. The reads are in the parts; and not in `decompose`,
        # which may know parts in Python that leave one out, as for istft.
        with within:
            return func._op_dk(_MADE_OF_OTHERS, *args, **kwargs)
    device = kwargs.get("device")
    to_device = None if device is None else is_claimed(device)
    name = func._schema.name
    if rules.unknown(func):
        _not_passed(func, "it answers no tensor, and no rule says whether it reads the device")
    number = getattr(_now, "host_number", False)
    for kind, what in rules.waits(func, args, kwargs, is_held=_is_held, to_device=to_device, host_number=number):
        _counts.note(kind, what)
    if held and not rules.may_mix(func):
        _refuse_mixed(flat)
    inner_args, inner_kwargs = tree_unflatten([x._inner if isinstance(x, Held) else x for x in flat], spec)
    if device is not None:
        inner_kwargs["device"] = torch.device("cpu")
    result = _compute(func, inner_args, inner_kwargs)
    if torch.Tag.inplace_view in func.tags:
        _reshape_outside(func, args, kwargs)
    stays = to_device is not False if name != "aten::copy_" else isinstance(args[0], Held)
    known = {id(tensor._inner): tensor for tensor in held}

    def outer(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        same = known.get(id(x))
        return same if same is not None else (Held(x) if stays else x)

    return tree_map(outer, result)


def _compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator on CPU tensors. The first time, see whether its kernel reads a value: CUDA's might too."""
    try:
        if str(func) in _counts.operators:
            return func(*args, **kwargs)
        _counts.operators.add(str(func))
        with torch.autograd.profiler.profile(use_kineto=False) as seen:
            result = func(*args, **kwargs)
    except NotImplementedError as error:
        _not_passed(func, str(error))
    if rules.reads_within(func, [event.name for event in seen.function_events]):
        _not_passed(func, "its kernel reads a value, and no rule says whether CUDA's does")
    return result


def _reshape_outside(func: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Give the outer tensor the shape that an operator has given the inner one in place."""
    tensor = args[0]
    with torch.utils._mode_utils.no_dispatch():
        func(*args, **kwargs)
    if (tensor.shape, tensor.stride()) != (tensor._inner.shape, tensor._inner.stride()):
        _not_passed(func, "it changes the shape of a tensor in place")


def _is_held(x: Any) -> bool:
    return isinstance(x, Held)


def _not_passed(func: Any, why: str) -> NoReturn:
    _counts.unpassed[str(func)] = why
    raise NotImplementedError(f"the counter cannot pass {func}: {why}")


def _refuse_mixed(flat: list[Any]) -> None:
    for x in flat:
        if isinstance(x, torch.Tensor) and not isinstance(x, Held) and x.dim() > 0:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
            )


# What Python asks of a tensor without an operator.


def _tolist(tensor: Held) -> Any:
    _counts.note(READ, "tolist")
    return tensor._inner.tolist()


def _printed(tensor: Held, *args: Any, **kwargs: Any) -> str:
    _counts.note(READ, "printed")
    return format(tensor._inner, *args)


def _refused(*_: Any, **__: Any) -> NoReturn:
    """As on CUDA: memory of the device is not the host's."""
    _counts.note(READ, "memory of the device")
    raise TypeError(
        "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy it to host memory first."
    )


def _set_item(tensor: torch.Tensor, index: Any, value: Any) -> None:
    _now.host_number = not isinstance(value, torch.Tensor)
    try:
        with torch._C.DisableTorchFunctionSubclass():
            torch.Tensor.__setitem__(tensor, index, value)
    finally:
        _now.host_number = False


def _attention(query: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Whole, with the CPU's kernel: the private device would be given another formula than the CPU."""
    flat, _ = tree_flatten((query, args, kwargs))
    _refuse_mixed(flat)
    plain_args, plain_kwargs = release((args, kwargs))
    return Held(torch.nn.functional.scaled_dot_product_attention(release(query), *plain_args, **plain_kwargs))


_SPECIAL: dict[Any, Any] = {
    torch.Tensor.device.__get__: lambda _: CLAIMED,
    torch.Tensor.is_cuda.__get__: lambda _: True,
    torch.Tensor.is_cpu.__get__: lambda _: False,
    torch.Tensor.get_device: lambda _: CLAIMED.index,
    torch.Tensor.tolist: _tolist,
    torch.Tensor.__repr__: _printed,
    torch.Tensor.__format__: _printed,
    torch.Tensor.numpy: _refused,
    torch.Tensor.__array__: _refused,
    torch.Tensor.__dlpack__: _refused,
    torch.Tensor.data_ptr: _refused,
    torch.Tensor.untyped_storage: _refused,
    torch.Tensor.storage: _refused,
    torch.Tensor.__reduce_ex__: _refused,
    torch.Tensor.__setitem__: _set_item,
    torch.nn.functional.scaled_dot_product_attention: _attention,
}


_setup_privateuseone_for_python_backend()
# Where C++ has put Python's part of dispatch aside (the elements of ``torch.tensor([held, held])``, the list
# of ``held[[0, 1]]``), these operators arrive at the private device itself. Any other would fail there.
_library = torch.library.Library("aten", "IMPL")
for _name in ("_local_scalar_dense", "empty_strided", "empty.memory_format", "copy_"):
    _packet, _, _overload = _name.partition(".")
    _operator = getattr(getattr(torch.ops.aten, _packet), _overload or "default")
    _library.impl(_name, lambda *args, _operator=_operator, **kwargs: operate(_operator, args, kwargs), "PrivateUse1")
