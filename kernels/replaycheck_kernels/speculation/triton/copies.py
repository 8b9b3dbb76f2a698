"""Slots copied by plan: temporal states and convolution windows of all layers in one launch.

A slot's bytes are copied as integers, so that no floating-point path can change them. Pairs run side by side: a plan's
destinations must not be sources of other pairs, nor may a window be moved onto itself (``commit.compact`` does that).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..copies import CopyPlan
from .support import check_plan

PROGRAM_BYTES = 8192
"""What a program of four warps copies in one go. Of a slot with less, several layers share a program."""

SMALLEST_BLOCK = 128
"""Elements of one slot and layer in a program."""


@triton.jit
def _move(source, destination, layers, count, from_layer, to_layer, begin, size, BLOCK: tl.constexpr):
    at = begin + tl.arange(0, BLOCK)[None, :]
    inside = (layers < count) & (at < size)
    tl.store(destination + layers * to_layer + at, tl.load(source + layers * from_layer + at, mask=inside), mask=inside)


@triton.jit
def _copy_kernel(
    state_from,
    state_to,
    conv_from,
    conv_to,
    sources,
    destinations,
    offsets,
    state_size,
    state_from_layer,
    state_from_slot,
    state_to_layer,
    state_to_slot,
    conv_size,
    conv_column,
    conv_from_layer,
    conv_from_slot,
    conv_to_layer,
    conv_to_slot,
    state_parts,
    layer_count,
    BLOCK: tl.constexpr,
    LAYERS: tl.constexpr,
):
    part, pair = tl.program_id(0), tl.program_id(1)
    layers = (tl.program_id(2) * LAYERS + tl.arange(0, LAYERS)[:, None]).to(tl.int64)
    source, destination = tl.load(sources + pair).to(tl.int64), tl.load(destinations + pair).to(tl.int64)
    if (source <= 0) | (destination <= 0):
        return
    if part < state_parts:
        _move(
            state_from + source * state_from_slot,
            state_to + destination * state_to_slot,
            layers,
            layer_count,
            state_from_layer,
            state_to_layer,
            part * BLOCK,
            state_size,
            BLOCK,
        )
    else:
        first = tl.load(offsets + pair).to(tl.int64) * conv_column
        _move(
            conv_from + source * conv_from_slot + first,
            conv_to + destination * conv_to_slot,
            layers,
            layer_count,
            conv_from_layer,
            conv_to_layer,
            (part - state_parts) * BLOCK,
            conv_size,
            BLOCK,
        )


def copy_slots(temporal: tuple[Tensor, Tensor], conv: tuple[Tensor, Tensor], plan: CopyPlan, history: int) -> None:
    """Copy states and windows from the first to the second tensor of each pair, which may be the same.

    Args:
        temporal: pools [L, S, HV, V, K] of one dtype. conv: pools [L, S, E, D] of one dtype.
        plan: slots of both; ``offset`` is the first column of the window, of which ``history`` are copied.

    Raises:
        ValueError: shapes or dtypes differ.
    """
    if temporal[0].dtype is not temporal[1].dtype or conv[0].dtype is not conv[1].dtype:
        raise ValueError("source and destination slots must have one dtype; a copy casts nothing")
    (state_from, state_to), (conv_from, conv_to) = _bits(*temporal), _bits(*conv)
    if state_from.shape[2:] != state_to.shape[2:] or conv_from.shape[3] != conv_to.shape[3]:
        raise ValueError("source and destination slots must have one shape")
    check_plan(plan.source, plan.destination, plan.offset)
    size, window = state_from[0, 0].numel(), history * conv_from.shape[3]
    most = PROGRAM_BYTES // max(state_from.element_size(), conv_from.element_size())
    block = min(most, max(SMALLEST_BLOCK, triton.next_power_of_2(size)))
    count, layers, parts = len(state_from), most // block, triton.cdiv(size, block)
    _copy_kernel[(parts + triton.cdiv(window, block), plan.source.shape[0], triton.cdiv(count, layers))](
        state_from, state_to, conv_from, conv_to, plan.source, plan.destination, plan.offset,
        size, state_from.stride(0), state_from.stride(1), state_to.stride(0), state_to.stride(1),
        window, conv_from.shape[3], conv_from.stride(0), conv_from.stride(1), conv_to.stride(0), conv_to.stride(1),
        parts, count, BLOCK=block, LAYERS=layers, num_warps=4,
    )  # fmt: skip


def _bits(*pools: Tensor) -> list[Tensor]:
    """The same memory as integers, the widest that rows, strides and addresses of all pools are whole numbers of."""
    for x in pools:
        if not x[0, 0].is_contiguous():
            raise ValueError(f"a slot must be contiguous; a pool of shape {list(x.shape)} has strides {x.stride()}")
    for integer in (torch.int64, torch.int32):
        if all(_whole(x, integer.itemsize) for x in pools):
            return [x.view(integer) for x in pools]
    return [x.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]) for x in pools]


def _whole(x: Tensor, width: int) -> bool:
    size = x.element_size()
    steps = (x.shape[-1], *x.stride()[:2], x.storage_offset())
    return size <= width and all(step * size % width == 0 for step in steps) and x.data_ptr() % width == 0
