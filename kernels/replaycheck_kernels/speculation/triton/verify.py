"""The read-only verify as one launch a layer: state tiles in fp32 registers, one token after the other."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...recipe import Recipe
from ..verify import STORED, Records, Verified
from ..window import Windows
from .activation import decay_of, normalised
from .support import check, check_plan, rsqrt

VALUES, WARPS = 4, 1
"""Rows of V and warps a program; within one warp no sum needs a barrier. Measured on an H200 (69 layers, 12 heads, 4
requests of 8 positions, a graph, µs): 714; with 8 rows 808, with 16 975, with 32 rows and 4 warps 1,044."""


@triton.jit
def _verify_kernel(
    q,
    k,
    v,
    a,
    b,
    A_log,
    dt_bias,
    pool,
    slots,
    lengths,
    o,
    correction,
    key,
    decay,
    lower_bound,
    scale,
    slot_stride,
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
):
    tile, row, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    of_q = head // (HV // H)
    channels: tl.constexpr = 1 if PER_HEAD else K
    ks, vs = tl.arange(0, BK), tile * BV + tl.arange(0, BV)
    in_k, in_v = ks < K, vs < V
    length = tl.load(lengths + row)
    slot = tl.load(slots + row).to(tl.int64)
    places = pool + slot * slot_stride + (head * V + vs[:, None]) * K + ks[None, :]
    # The null slot is never read: such a row starts from zero and its output means nothing.
    state = tl.load(places, mask=in_v[:, None] & in_k[None, :] & (slot > 0), other=0.0).to(tl.float32)
    rate = tl.exp(tl.load(A_log + head).to(tl.float32))
    of_decay = ks * 0 if PER_HEAD else ks
    bias = tl.load(dt_bias + head * channels + of_decay, mask=in_k, other=0.0).to(tl.float32)
    for t in tl.static_range(Q):
        live = t < length
        token = (row * Q + t).to(tl.int64)
        query = tl.load(q + (token * H + of_q) * K + ks, mask=in_k & live, other=0.0)
        key_t = tl.load(k + (token * H + of_q) * K + ks, mask=in_k & live, other=0.0)
        raw = tl.load(a + (token * HV + head) * channels + of_decay, mask=in_k & live, other=0.0)
        value = tl.load(v + (token * HV + head) * V + vs, mask=in_v & live, other=0.0).to(tl.float32)
        beta = tl.sigmoid(tl.load(b + token * HV + head, mask=live, other=0.0).to(tl.float32))
        unit = normalised(key_t.to(tl.float32), RSQRT)
        factor = decay_of(raw.to(tl.float32), bias, rate, lower_bound, BOUNDED)
        after = state * factor[None, :]
        u = beta * (value - tl.sum(after * unit[None, :], 1))
        after += u[:, None] * unit[None, :]
        out = tl.sum(after * (normalised(query.to(tl.float32), RSQRT) * scale)[None, :], 1)
        state = tl.where(live, after, state)
        tl.store(o + (token * HV + head) * V + vs, out.to(o.dtype.element_ty), mask=in_v & live)
        record = ((row * HV + head) * Q + t).to(tl.int64)
        tl.store(correction + record * V + vs, u, mask=in_v & live)
        if tile == 0:
            if PER_HEAD:
                tl.store(decay + record, tl.sum(tl.where(ks == 0, raw.to(tl.float32), 0.0), 0), mask=live)
            else:
                tl.store(decay + record * K + ks, raw, mask=in_k & live)
            if head % (HV // H) == 0:
                of_key = ((row * H + of_q) * Q + t).to(tl.int64)
                tl.store(key + of_key * K + ks, key_t, mask=in_k & live)


def verify(window: Windows, pool: Tensor, slots: Tensor, recipe: Recipe, into: Verified | None = None) -> Verified:
    """Verify windows from ``pool`` [S, HV, V, K], any pool dtype, which isn't written.

    Args:
        window: q, k, v, a, b contiguous, fp32 or in the activation dtype.
        slots: [R] slot of each checkpoint; a null row's outputs and records mean nothing.
        into: outputs and records to fill, for a captured graph; made if not given.

    Raises:
        ValueError: a recipe whose recurrent form rounds q, k or beta, which this kernel doesn't; strides it can't read.
    """
    x = window.inputs
    check(recipe, (x.q, x.k, x.v, x.a, x.b, x.dt_bias), pool)
    check_plan(slots, window.lengths)
    done = into or _outputs(window, recipe)
    heads, values, key_width, value_width = x.q.shape[1], x.v.shape[1], x.q.shape[2], x.v.shape[2]
    block = min(VALUES, triton.next_power_of_2(value_width))
    _verify_kernel[(triton.cdiv(value_width, block), window.rows, values)](
        x.q, x.k, x.v, x.a, x.b, x.A_log, x.dt_bias, pool, slots, window.lengths,
        done.o, done.records.correction, done.records.key, done.records.decay,
        x.lower_bound or 0.0, key_width**-0.5, pool.stride(0),
        H=heads, HV=values, K=key_width, V=value_width, Q=window.width,
        BK=triton.next_power_of_2(key_width), BV=block,
        PER_HEAD=x.per_head, BOUNDED=x.lower_bound is not None, RSQRT=rsqrt(recipe),
        num_warps=WARPS,
    )  # fmt: skip
    return done


def _outputs(window: Windows, recipe: Recipe) -> Verified:
    x, dtype = window.inputs, STORED[recipe.activation]
    rows, width = window.rows, window.width
    o = x.v.new_empty((rows, width, *x.v.shape[1:]), dtype=dtype)
    return Verified(
        o,
        Records(
            x.v.new_empty((rows, x.v.shape[1], width, x.v.shape[2]), dtype=torch.float32),
            x.k.new_empty((rows, x.k.shape[1], width, x.k.shape[2]), dtype=dtype),
            x.a.new_empty((rows, x.a.shape[1], width, x.a.shape[2]), dtype=dtype),
        ),
    )
