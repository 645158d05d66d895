"""Three ways to find out where each query token's key and value go in a paged cache.

A block table lies on the device: row r, column c is the number of the block that holds positions
c * block_size and on of request r. For each query token of each request the position is wanted, and
its slot: block * block_size + offset. Lengths come from the host.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Metadata:
    """What attention needs to know, on the device. ``[requests + 1]``, ``[requests]``, ``[tokens]``, ``[tokens]``."""

    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    max_seq_len: int


@dataclass(frozen=True)
class BlockTable:
    """``blocks`` is int32 ``[max requests, blocks for each]`` on the device."""

    blocks: torch.Tensor
    block_size: int


# Table, query lengths, sequence lengths -> metadata.
Form = Callable[[BlockTable, torch.Tensor, torch.Tensor], Metadata]


def before(table: BlockTable, query_lens: torch.Tensor, seq_lens: torch.Tensor) -> Metadata:
    """As it was: one read from the device for each query token."""
    slots = []
    for request in range(len(query_lens)):
        query, seq = int(query_lens[request].item()), int(seq_lens[request].item())
        for position in range(seq - query, seq):
            block = int(table.blocks[request, position // table.block_size].item())
            slots.append(block * table.block_size + position % table.block_size)
    return _metadata(table, query_lens, seq_lens, slots)


def after(table: BlockTable, query_lens: torch.Tensor, seq_lens: torch.Tensor) -> Metadata:
    """As #1614 made it: the requests' whole rows in one copy."""
    rows = table.blocks[: len(query_lens)].cpu().tolist()
    return _metadata(table, query_lens, seq_lens, _slots(rows, table.block_size, query_lens, seq_lens))


def needed(table: BlockTable, query_lens: torch.Tensor, seq_lens: torch.Tensor) -> Metadata:
    """As its reviewer proposed: one copy, of the columns that the longest sequence reaches."""
    columns = -(-max(seq_lens.tolist(), default=0) // table.block_size)
    rows = table.blocks[: len(query_lens), :columns].cpu().tolist()
    return _metadata(table, query_lens, seq_lens, _slots(rows, table.block_size, query_lens, seq_lens))


FORMS: dict[str, Form] = {"before": before, "after": after, "only the blocks needed": needed}


def _slots(rows: list[list[int]], size: int, query_lens: torch.Tensor, seq_lens: torch.Tensor) -> list[int]:
    return [
        row[position // size] * size + position % size
        for row, query, seq in zip(rows, query_lens.tolist(), seq_lens.tolist(), strict=True)
        for position in range(seq - query, seq)
    ]


def _metadata(table: BlockTable, query_lens: torch.Tensor, seq_lens: torch.Tensor, slots: list[int]) -> Metadata:
    """Put together what all forms have in common."""
    device = table.blocks.device
    queries, sequences = query_lens.tolist(), seq_lens.tolist()
    positions = [p for query, seq in zip(queries, sequences, strict=True) for p in range(seq - query, seq)]
    starts = torch.zeros(len(queries) + 1, dtype=torch.int32)
    starts[1:] = torch.cumsum(query_lens, dim=0)
    return Metadata(
        query_start_loc=starts.to(device),
        seq_lens=seq_lens.to(device),
        positions=torch.tensor(positions, dtype=torch.int64).to(device),
        slot_mapping=torch.tensor(slots, dtype=torch.int64).to(device),
        max_seq_len=max(sequences, default=0),
    )
