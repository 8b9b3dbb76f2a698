"""Causal attention over a paged cache, one token a page, for packed queries of many sequences."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .launch import aligned, on_device, power_of_two, sized

_INDEX = (torch.int32, torch.int64)
_QUERIES = 16
"""The smallest left operand of tensor cores: a decode step wastes 15 rows of it, a prefill loads each key once for 16."""


@dataclass(frozen=True)
class QueryBlocks:
    """Up to 16 neighbouring queries of one sequence each; made once for all layers. They change speed, no bit.

    Attributes:
        first: [B] int32, a block's first packed query. count: [B] int32, its number of queries (0: none).
    """

    first: Tensor
    count: Tensor


def query_blocks(offsets: Tensor, tokens: int) -> QueryBlocks:
    """Blocks of packed queries.

    Args:
        offsets: [R + 1] int32 or int64 on the device, from 0 to ``tokens``; sequences may be empty.
    """
    blocks = tokens // _QUERIES + offsets.shape[0] - 1
    ends = torch.cumsum((offsets.diff() + _QUERIES - 1) // _QUERIES, 0)
    block = torch.arange(blocks, dtype=ends.dtype, device=offsets.device)
    row = torch.searchsorted(ends, block, right=True).clamp(max=offsets.shape[0] - 2)
    before = torch.cat([ends.new_zeros(1), ends])[row]
    first = offsets[row] + (block - before) * _QUERIES
    count = (offsets[row + 1] - first).clamp(0, _QUERIES)
    return QueryBlocks(first.to(torch.int32), count.to(torch.int32))


def attend(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    pages: Tensor,
    page_start: Tensor,
    visible: Tensor,
    scale: float,
    blocks: QueryBlocks | None = None,
) -> Tensor:
    """softmax(scale · q keysᵀ) values, keys in the order of positions, in blocks of 64 (fp32 stores: 32).

    The stores' dtype says how. bf16: q must hold bf16 values; products are exact, on tensor cores, and the fp32 weights are
    split into three bf16 terms. fp32: fused multiply-adds.

    A query reads its sequence's pages up to the last one that its block sees. Pages beyond its own get weight 0; a value
    there that isn't finite makes NaN of it, and it can only come from one of the next 15 tokens of the same sequence.

    Args:
        q: [N, H, D] fp32. keys: [P, H, D], values: [P, H, V], bf16 or fp32, contiguous. D, V: multiples of 16 up to 256.
        pages: int32 or int64 page numbers, sequence after sequence.
        page_start, visible: [N] int32 or int64; query n sees pages[page_start[n] : page_start[n] + visible[n]], visible ≥ 1.
        blocks: :func:`query_blocks` of the queries' offsets; without them every query is its own block.

    Returns:
        [N, H, V] fp32, not rounded.

    Raises:
        ValueError: another dtype, device or shape.
    """
    N, H, D, V = *q.shape, values.shape[-1]
    _check(q, keys, values, pages, page_start, visible)
    if blocks is None:
        each = torch.arange(N, dtype=torch.int32, device=q.device)
        blocks = QueryBlocks(each, torch.ones_like(each))
    out = q.new_empty((N, H, V))
    split = keys.dtype is torch.bfloat16
    if N:
        from .kernels.attention import attention_kernel

        attention_kernel[(blocks.first.shape[0] * H,)](
            aligned(q),
            keys,
            values,
            pages,
            page_start,
            visible,
            blocks.first,
            blocks.count,
            out,
            scale,
            H,
            D,
            V,
            _QUERIES,
            64 if split else 32,
            power_of_two(D, 16, 256 if split else 16),
            power_of_two(V, 16, 256),
            split,
            num_warps=4,
            num_stages=2,
        )
    return out


def _check(q: Tensor, keys: Tensor, values: Tensor, pages: Tensor, page_start: Tensor, visible: Tensor) -> None:
    (N, H, D), V = q.shape, values.shape[-1]
    on_device("q", q, torch.float32)
    for name, store, width in (("keys", keys, D), ("values", values, V)):
        on_device(name, store, torch.bfloat16, torch.float32)
        sized(name, store, keys.shape[0], H, width)
        if width % 16 or width > 256:
            raise ValueError(f"{name} of {width} elements a head; allowed: multiples of 16 up to 256")
        # A copy of the whole store at each call would be a silent slowdown.
        if not store.is_contiguous() or store.data_ptr() % 16 or store.dtype is not keys.dtype:
            raise ValueError(f"{name} must be contiguous, at 16 bytes and of the dtype of keys ({keys.dtype})")
    for name, index, shape in (("pages", pages, -1), ("page_start", page_start, N), ("visible", visible, N)):
        on_device(name, index, *_INDEX)
        sized(name, index, shape)
