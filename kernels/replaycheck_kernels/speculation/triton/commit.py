"""Commit plan, rebuild and convolution compaction, each one launch for all layers."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...recipe import Recipe
from ..commit import Align, CommitPlan, Decays
from ..verify import Records
from .activation import decay_of, normalised
from .support import check, check_plan, rsqrt

VALUES, WARPS = 16, 2
"""Rows of V and warps a program of the rebuild; each tile of V computes a token's decay again. Measured on an H200 (69
layers, 12 heads, 4 requests of 8 positions, a graph, µs): 164; (32, 2) 173, (64, 4) 192, (64, 8) 206, (128, 8) 214,
(32, 4) 264."""

CHANNELS = 256
"""Channels a program of the compaction."""


@triton.jit
def _plan_kernel(
    accepted,
    lengths,
    source,
    table,
    computed,
    length_out,
    final_out,
    boundary_out,
    ahead_out,
    block,
    columns,
    table_stride,
    Q: tl.constexpr,
    ALIGN: tl.constexpr,
):
    row = tl.program_id(0)
    slot = tl.load(source + row).to(tl.int64)
    kept = tl.minimum(tl.load(accepted + row).to(tl.int64), tl.load(lengths + row).to(tl.int64))
    kept = tl.minimum(tl.maximum(kept, 0), Q)
    kept = tl.where(slot > 0, kept, 0)
    final, boundary, ahead = slot, slot * 0, slot * 0
    if ALIGN:
        before = tl.load(computed + row).to(tl.int64)
        # A state that ends on a boundary belongs to the block that it completes.
        column = tl.minimum(tl.maximum(before + kept - 1, 0) // block, columns - 1)
        final = tl.load(table + row * table_stride + column).to(tl.int64)
        done = before // block
        ahead = (done + 1) * block - before
        crosses = (kept > 0) & (kept >= ahead)
        boundary = tl.load(table + row * table_stride + done, mask=crosses, other=0).to(tl.int64)
        ahead = tl.where(crosses, ahead, 0)
    tl.store(length_out + row, kept)
    tl.store(final_out + row, tl.where(kept > 0, final, 0))
    tl.store(boundary_out + row, boundary)
    tl.store(ahead_out + row, ahead)


@triton.jit
def _rebuild_kernel(
    pool,
    correction,
    key,
    decay,
    A_log,
    dt_bias,
    source,
    lengths,
    finals,
    boundaries,
    aheads,
    lower_bound,
    layer_stride,
    slot_stride,
    rows,
    H: tl.constexpr,
    HV: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    Q: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    PER_HEAD: tl.constexpr,
    BOUNDED: tl.constexpr,
    RSQRT: tl.constexpr,
    ALIGN: tl.constexpr,
):
    tile, row, layer_head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + row)
    if length == 0:
        return
    layer, head = layer_head // HV, layer_head % HV
    channels: tl.constexpr = 1 if PER_HEAD else K
    ks, vs = tl.arange(0, BK), tile * BV + tl.arange(0, BV)
    in_k, in_v = ks < K, vs < V
    in_state = in_v[:, None] & in_k[None, :]
    states = pool + layer.to(tl.int64) * layer_stride + (head * V + vs[:, None]) * K + ks[None, :]
    checkpoint = tl.load(states + tl.load(source + row).to(tl.int64) * slot_stride, mask=in_state, other=0.0).to(
        tl.float32
    )
    rate = tl.exp(tl.load(A_log + layer_head).to(tl.float32))
    of_decay = ks * 0 if PER_HEAD else ks
    bias = tl.load(dt_bias + layer_head * channels + of_decay, mask=in_k, other=0.0).to(tl.float32)
    record = ((layer * rows + row) * HV + head).to(tl.int64) * Q
    of_key = ((layer * rows + row) * H + head // (HV // H)).to(tl.int64) * Q
    total = tl.zeros([BV, BK], tl.float32)
    product = tl.full([BK], 1.0, tl.float32)
    ahead = length
    edge_total, edge_product = total, product
    if ALIGN:
        ahead = tl.load(aheads + row)
    # Unrolled with masks, so that the loads of all tokens are issued before the first is needed.
    for back in tl.static_range(Q):
        t = Q - 1 - back
        live = t < length
        u = tl.load(correction + (record + t) * V + vs, mask=in_v & live, other=0.0)
        raw_key = tl.load(key + (of_key + t) * K + ks, mask=in_k & live, other=0.0).to(tl.float32)
        raw = tl.load(decay + (record + t) * channels + of_decay, mask=in_k & live, other=0.0).to(tl.float32)
        unit = normalised(raw_key, RSQRT)
        factor = tl.where(live, decay_of(raw, bias, rate, lower_bound, BOUNDED), 1.0)
        total += u[:, None] * (unit * product)[None, :]
        product *= factor
        if ALIGN:
            inside = t < ahead
            edge_total += tl.where(inside, u, 0.0)[:, None] * (unit * edge_product)[None, :]
            edge_product *= tl.where(inside, factor, 1.0)
    if ALIGN:
        boundary = tl.load(boundaries + row).to(tl.int64)
        edge = checkpoint * edge_product[None, :] + edge_total
        tl.store(states + boundary * slot_stride, edge.to(pool.dtype.element_ty), mask=in_state & (boundary > 0))
    final = checkpoint * product[None, :] + total
    tl.store(states + tl.load(finals + row).to(tl.int64) * slot_stride, final.to(pool.dtype.element_ty), mask=in_state)


@triton.jit
def _compact_kernel(
    conv,
    source,
    lengths,
    finals,
    boundaries,
    aheads,
    layer_stride,
    slot_stride,
    channels,
    COLUMNS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGN: tl.constexpr,
):
    part, row, layer = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + row)
    if length == 0:
        return
    at, columns = part * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_COLUMNS)
    mask = (columns < COLUMNS)[:, None] & (at < channels)[None, :]
    places = conv + layer.to(tl.int64) * layer_stride + columns[:, None] * channels + at[None, :]
    held = places + tl.load(source + row).to(tl.int64) * slot_stride
    # Both windows are read before either is written: source, boundary and final may be one slot.
    kept = tl.load(held + (length - 1) * channels, mask=mask)
    if ALIGN:
        boundary = tl.load(boundaries + row).to(tl.int64)
        mask_edge = mask & (boundary > 0)
        edge = tl.load(held + (tl.load(aheads + row) - 1) * channels, mask=mask_edge)
        tl.debug_barrier()
        tl.store(places + boundary * slot_stride, edge, mask=mask_edge)
    else:
        tl.debug_barrier()
    tl.store(places + tl.load(finals + row).to(tl.int64) * slot_stride, kept, mask=mask)


def plan_commit(
    accepted: Tensor,
    lengths: Tensor,
    source: Tensor,
    width: int,
    align: Align | None = None,
    into: CommitPlan | None = None,
) -> CommitPlan:
    """``commit.plan_commit`` in one launch; ``into`` is filled for a captured graph (its ``source`` must be ``source``)."""
    if align is not None and align.block < width:
        raise ValueError(f"align block of {align.block} tokens is smaller than the speculation window of {width}")
    plan = into or CommitPlan(source, *(torch.empty_like(source, dtype=torch.int64) for _ in range(4)))
    table = source if align is None else align.table
    check_plan(accepted, lengths, source, table, *(() if align is None else (align.computed,)))
    _plan_kernel[(source.shape[0],)](
        accepted, lengths, source, table, source if align is None else align.computed,
        plan.length, plan.final, plan.boundary, plan.boundary_length,
        1 if align is None else align.block, 1 if align is None else table.shape[1], table.stride(0),
        Q=width, ALIGN=align is not None, num_warps=1,
    )  # fmt: skip
    return plan


def rebuild(pool: Tensor, records: Records, plan: CommitPlan, decays: Decays, recipe: Recipe, aligned: bool) -> None:
    """Rebuild the final states, and with ``aligned`` the boundary states, of all layers; in place.

    Args:
        pool: [L, S, HV, V, K]. records: of all layers, [L, R, …]. decays: A_log [L, HV], dt_bias [L, HV, K or 1].
    """
    check(recipe, (records.correction, records.key, records.decay, decays.A_log, decays.dt_bias), pool[0])
    layers, _, values, value_width, key_width = pool.shape
    rows, heads, width = records.key.shape[1:4]
    block = min(VALUES, triton.next_power_of_2(value_width))
    _rebuild_kernel[(triton.cdiv(value_width, block), rows, layers * values)](
        pool, records.correction, records.key, records.decay, decays.A_log, decays.dt_bias,
        plan.source, plan.length, plan.final, plan.boundary, plan.boundary_length,
        decays.lower_bound or 0.0, pool.stride(0), pool.stride(1), rows,
        H=heads, HV=values, K=key_width, V=value_width, Q=width,
        BK=triton.next_power_of_2(key_width), BV=block,
        PER_HEAD=decays.dt_bias.shape[-1] == 1, BOUNDED=decays.lower_bound is not None, RSQRT=rsqrt(recipe),
        ALIGN=aligned, num_warps=WARPS,
    )  # fmt: skip


def compact(conv: Tensor, plan: CommitPlan, history: int, aligned: bool) -> None:
    """Compact the convolution windows of all layers, conv [L, S, E, D]; in place."""
    layers, _, _, channels = conv.shape
    block = min(CHANNELS, triton.next_power_of_2(channels))
    _compact_kernel[(triton.cdiv(channels, block), plan.length.shape[0], layers)](
        conv, plan.source, plan.length, plan.final, plan.boundary, plan.boundary_length,
        conv.stride(0), conv.stride(1), channels,
        COLUMNS=history, BLOCK_COLUMNS=triton.next_power_of_2(history), BLOCK=block, ALIGN=aligned, num_warps=4,
    )  # fmt: skip
