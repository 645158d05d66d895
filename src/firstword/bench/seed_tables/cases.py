"""Batches on which the three forms must agree."""

import torch

from firstword.bench.seed_tables.forms import FORMS, BlockTable, Metadata

# What is special -> query lengths, sequence lengths
CASES: dict[str, tuple[list[int], list[int]]] = {
    "a first pass of two tokens": ([2], [2]),
    "one token after others": ([1], [9]),
    "many requests, one token each": ([1] * 8, [5] * 8),
    "first passes and single tokens together": ([2, 1, 2, 1], [2, 7, 2, 40]),
    "across the border of a block": ([6, 1, 1], [19, 16, 17]),
    "requests of different lengths": ([1, 3, 2, 5], [64, 3, 33, 50]),
}
_SIZE = 16


def table(rows: int, positions: int, device: torch.device, *, size: int = _SIZE) -> BlockTable:
    """Return a block table for `rows` requests; neighbouring blocks of a request are not neighbours."""
    columns = -(-positions // size)
    mixed = torch.randperm(rows * columns, generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    return BlockTable(mixed.reshape(rows, columns).to(device), size)


def agree(device: torch.device) -> dict[str, bool]:
    """Return for each case whether all forms give the same."""
    blocks = table(8, 64, device)
    return {name: _agree(blocks, torch.tensor(q), torch.tensor(s)) for name, (q, s) in CASES.items()}


def _agree(blocks: BlockTable, queries: torch.Tensor, sequences: torch.Tensor) -> bool:
    first, *others = (form(blocks, queries.int(), sequences.int()) for form in FORMS.values())
    return all(same(first, other) for other in others)


def same(one: Metadata, other: Metadata) -> bool:
    """Whether two results are equal, element for element and in type."""
    left, right = vars(one), vars(other)
    return all(
        torch.equal(value, right[name]) and value.dtype == right[name].dtype
        if isinstance(value, torch.Tensor)
        else value == right[name]
        for name, value in left.items()
    )
