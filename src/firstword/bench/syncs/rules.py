"""Which operator calls make the host wait on CUDA, and which tensors may meet in one.

Most of this is PyTorch's own knowledge: its schemas, and the tags `data_dependent_output` and
`dynamic_output_shape` of operators whose answer, or its size, the host must know. What is written here
besides is what CUDA does: a copy between host and device waits unless it is `non_blocking`; an index on
the host is copied to the device first; `index_put_` of one number from the host fills by the mask.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from firstword.bench.syncs.counting import ASYNC, READ, WRITE

# Answers that are in a tensor's description, not in its data.
DESCRIPTION = {
    *("aten::is_same_size", "aten::is_pinned", "aten::_has_compatible_shallow_copy_type", "aten::dense_dim"),
    *("aten::sym_size", "aten::sym_stride", "aten::sym_numel", "aten::sym_storage_offset", "aten::is_contiguous"),
    *("aten::is_non_overlapping_and_dense", "aten::is_strides_like_format", "prim::device", "aten::_fused_sdp_choice"),
    *("aten::_use_cudnn_ctc_loss", "aten::q_scale", "aten::q_zero_point"),
}
_INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"}
_COPIES = {"aten::_to_copy", "aten::copy_", "aten::copy", "aten::_copy_from"}
# The CPU's kernel does not, so nothing but this tells (pytorch #108968).
_ONLY_CUDA_READS = {"aten::nanmedian"}
_MASKS = (torch.bool, torch.uint8)
_DEPENDS = {
    torch.Tag.data_dependent_output: "a value from the device",
    torch.Tag.dynamic_output_shape: "a size that depends on data",
}


def waits(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], *, is_held: Any, to_device: bool | None, host_number: bool
) -> Iterator[tuple[str, str]]:
    """Yield ``(kind, what)`` for each time that this call makes the host wait, or copies.

    Args:
        func: The operator.
        args: Its arguments, of which at least one is held, or the result will be.
        kwargs: As above.
        is_held: Tells a held tensor.
        to_device: Where the result goes, if the call says so.
        host_number: Within ``tensor[...] = number``. On CUDA, C++ leaves that number on the host.
    """

    def held_value(value: Any) -> bool:
        return bool(is_held(value)) and not (host_number and value.dim() == 0)

    name = func._schema.name
    if name == "aten::_local_scalar_dense":
        yield READ, "number"
    elif name == "aten::_to_copy" and to_device is not None and to_device != is_held(args[0]):
        yield _copy(to_device, kwargs.get("non_blocking"))
    elif name == "aten::copy_" and is_held(args[0]) != held_value(args[1]):
        yield _copy(is_held(args[0]), kwargs.get("non_blocking") or (len(args) > 2 and args[2]))
    elif name in _INDEXING:
        yield from _indexing(name, args, is_held, held_value)
    elif name == "aten::repeat_interleave" and kwargs.get("output_size") is not None:
        return
    elif name in _ONLY_CUDA_READS:
        yield READ, "a value, within the kernel"
    else:
        yield from ((READ, what) for tag, what in _DEPENDS.items() if tag in func.tags)


def _copy(to_device: bool, non_blocking: Any) -> tuple[str, str]:
    kind = ASYNC if non_blocking else (WRITE if to_device else READ)
    return kind, "to the device" if to_device else "to the host"


def _indexing(name: str, args: Sequence[Any], is_held: Any, held_value: Any) -> Iterator[tuple[str, str]]:
    masks = [index for index in args[1] if index is not None and index.dtype in _MASKS]
    value = args[2] if name != "aten::index" and len(args) > 2 else None
    if value is not None and len(masks) == 1 and value.numel() == 1 and not held_value(value):
        return  # fills by the mask
    yield from ((READ, "positions of a mask") for mask in masks if is_held(mask))
    yield from ((WRITE, "index to the device") for index in args[1] if index is not None and not is_held(index))


def unknown(func: Any) -> bool:
    """Whether this operator answers something else than tensors, and nothing here says what that means."""
    name = func._schema.name
    answers = [str(returned.type) for returned in func._schema.returns]
    known = name in DESCRIPTION or any(tag in func.tags for tag in _DEPENDS)
    return not known and any("Tensor" not in answer for answer in answers)


def reads_within(func: Any, called: Sequence[str]) -> bool:
    """Whether a kernel that called these operators reads a value that is not counted already.

    `_assert_async` reads on the CPU, and on CUDA leaves the check to the device (`multinomial`).
    """
    counted = any(tag in func.tags for tag in _DEPENDS) or func._schema.name in _INDEXING
    return not counted and called.count("aten::_local_scalar_dense") > called.count("aten::_assert_async")


def may_mix(func: Any) -> bool:
    """Whether this operator takes tensors of the host and of the device together on CUDA."""
    return func._schema.name in _COPIES | _INDEXING
