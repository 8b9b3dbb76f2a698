"""The pass over a sequence's chunks: Vnew, o and the state, whose fp32 accumulator stays on chip from first to last token.

One program per block of values, value head and sequence. o needs the state at its chunk's start only, so it is computed
here and per-chunk states are never stored. A table says for each chunk whether the accumulator at its start is wanted
and in which row; it is data, so asking changes neither the program nor any bit of it.
"""

import triton
import triton.language as tl

from .elements import low, product, stored


@triton.jit
def state_pass(
    qk,  # [N, HV, 64]
    w,  # [N, HV, K]
    u,  # [N, HV, V]
    k_decayed,  # [N, HV, K]
    q_decayed,  # [N, HV, K]
    decay,  # [B, HV, K] fp32
    growth,  # [N, HV] fp32, read where decays are on the products
    remaining,  # [N, HV] fp32, likewise
    pool,  # [slots, HV, V, K], read and written
    o,  # [N, HV, V], written
    snapshots,  # [rows, HV, V, K] fp32, written
    offsets,  # [R + 1] int32, tokens
    firsts,  # [R] int32, first chunk of each sequence
    taps,  # [B] int32: row of snapshots, or -1
    sources,  # [R] int32 slots, -1 for zero
    destinations,  # [R] int32 slots, -1 for none
    seeds,  # [R] int32
    scale,
    HV: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BV: tl.constexpr,
    STOCHASTIC: tl.constexpr,
    BF16: tl.constexpr,
    PRODUCTS: tl.constexpr,  # decays and the scale of q multiply finished products; else they are in the operands
):
    """One sequence, BV values of one value head; grid (V / BV, HV, R). See the module for the method."""
    hv, sequence = tl.program_id(1), tl.program_id(2)
    row, channel, column = tl.arange(0, 64), tl.arange(0, K), tl.arange(0, 64)
    value = tl.program_id(0) * BV + tl.arange(0, BV)
    begin, end = tl.load(offsets + sequence), tl.load(offsets + sequence + 1)
    first = tl.load(firsts + sequence)
    source = tl.load(sources + sequence).to(tl.int64)
    index = (hv * V + value[None, :]) * K + channel[:, None]  # of an element [K, BV] in its slot
    size = HV * V * K
    S = tl.load(pool + source * size + index, mask=(source >= 0) & (index >= 0), other=0.0).to(tl.float32)
    for c in range(0, tl.cdiv(end - begin, 64)):
        tap = tl.load(taps + first + c)
        if tap >= 0:
            tl.store(snapshots + tap.to(tl.int64) * size + index, S)
        at = begin + c * 64 + row
        alive = (at < end)[:, None]
        token = (at.to(tl.int64) * HV + hv)[:, None]
        operand = low(S, BF16)
        W = tl.load(w + token * K + channel[None, :], mask=alive, other=0.0)
        U = tl.load(u + token * V + value[None, :], mask=alive, other=0.0).to(tl.float32)
        change = U - product(W, operand, BF16)
        new = low(change, BF16)
        Q = tl.load(q_decayed + token * K + channel[None, :], mask=alive, other=0.0)
        A = tl.load(qk + token * 64 + column[None, :], mask=alive, other=0.0)
        from_state, local = product(Q, operand, BF16), product(A, new, BF16)
        if PRODUCTS:
            at_head = at.to(tl.int64) * HV + hv
            grown = tl.load(growth + at_head, mask=at < end, other=0.0)[:, None]
            left = tl.load(remaining + at_head, mask=at < end, other=0.0)[:, None]
            out, new = from_state * grown * scale + local * scale, low(change * left, BF16)
        else:
            out = from_state + local
        tl.store(o + token * V + value[None, :], out.to(o.dtype.element_ty), mask=alive)
        kept = tl.load(decay + ((first + c).to(tl.int64) * HV + hv) * K + channel)
        Kd = tl.load(k_decayed + token * K + channel[None, :], mask=alive, other=0.0)
        S = S * kept[:, None] + product(tl.trans(Kd), new, BF16)
    destination = tl.load(destinations + sequence).to(tl.int64)
    final = stored(S, tl.load(seeds + sequence), index, pool, STOCHASTIC)
    tl.store(pool + destination * size + index, final, mask=(destination >= 0) & (index >= 0))
