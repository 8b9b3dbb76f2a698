"""The recurrence token by token: decode, verify and short extends, with the state of a block of values in registers.

One program per block of values, value head and sequence. After each token the state may go to a slot of the pool, in
the pool's dtype (verify), and before each token to a row of fp32 snapshots; both tables are data. The register state
stays fp32 throughout a call, whatever the pool's dtype.
"""

import triton
import triton.language as tl

from .elements import EPSILON, log_decay, quotient, rounded, sigmoid, stored


@triton.jit
def _unit(x):
    """x [K] over its norm."""
    root = tl.sqrt_rn(tl.sum(x * x, 0) + EPSILON)
    return quotient(x, root, tl.div_rn(1.0, root))


@triton.jit
def recurrence(
    q,  # [N, H, K]
    k,  # [N, H, K]
    v,  # [N, HV, V]
    a,  # [N, HV, GW]
    b,  # [N, HV]
    A_log,  # [HV]
    dt_bias,  # [HV, GW]
    pool,  # [slots, HV, V, K], read and written
    o,  # [N, HV, V], written
    snapshots,  # [rows, HV, V, K] fp32, written
    offsets,  # [R + 1] int32, tokens
    taps,  # [N] int32: row of snapshots for the state before the token, or -1
    steps,  # [N] int32: slot for the state after the token, or -1
    sources,  # [R] int32 slots, -1 for zero
    destinations,  # [R] int32 slots, -1 for none
    seeds,  # [R] int32
    bound,
    scale,
    H: tl.constexpr,
    HV: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    GW: tl.constexpr,  # K, or 1 with one decay a head
    BV: tl.constexpr,
    BOUNDED: tl.constexpr,
    BETA_BF16: tl.constexpr,
    STOCHASTIC: tl.constexpr,
):
    """One sequence, BV values of one value head; grid (V / BV, HV, R). See the module for the method."""
    hv, sequence = tl.program_id(1), tl.program_id(2)
    h = hv // (HV // H)
    channel, gate = tl.arange(0, K), tl.arange(0, GW)
    value = tl.program_id(0) * BV + tl.arange(0, BV)
    size, block = HV * V * K, (hv * V + tl.program_id(0) * BV) * K
    # Four elements a thread in every pool dtype: a wider vector would give the sums over K another order.
    inside = tl.multiple_of(tl.arange(0, BV)[:, None] * K + channel[None, :], (1, 4))
    source = tl.load(sources + sequence).to(tl.int64)
    S = tl.load(pool + (source * size + block) + inside, mask=source >= 0, other=0.0).to(tl.float32)
    begin, end = tl.load(offsets + sequence), tl.load(offsets + sequence + 1)
    destination = tl.load(destinations + sequence).to(tl.int64)
    seed = tl.load(seeds + sequence)
    rate = tl.exp(tl.load(A_log + hv))
    bias = tl.load(dt_bias + hv * GW + gate)
    for i in range(0, end - begin):
        t = begin + i
        tap = tl.load(taps + t).to(tl.int64)
        step = tl.load(steps + t).to(tl.int64)
        at, at_value = t.to(tl.int64) * H + h, t.to(tl.int64) * HV + hv
        raw_q, raw_k = tl.load(q + at * K + channel).to(tl.float32), tl.load(k + at * K + channel).to(tl.float32)
        raw_a = tl.load(a + at_value * GW + gate).to(tl.float32)
        x = tl.load(v + at_value * V + value).to(tl.float32)
        beta = rounded(sigmoid(tl.load(b + at_value).to(tl.float32)), BETA_BF16)
        if tap >= 0:
            tl.store(snapshots + (tap * size + block) + inside, S)
        kn, qn = _unit(raw_k)[None, :], (_unit(raw_q) * scale)[None, :]
        S = S * tl.exp(log_decay(raw_a, rate, bias, bound, BOUNDED))[None, :]
        u = beta * (x - tl.sum(S * kn, 1))
        S = tl.fma(u[:, None] + tl.zeros_like(S), kn + tl.zeros_like(S), S)
        tl.store(o + at_value * V + value, tl.sum(S * qn, 1).to(o.dtype.element_ty))
        if step >= 0:
            tl.store(pool + (step * size + block) + inside, stored(S, seed + i, block + inside, pool, STOCHASTIC))
    final = stored(S, seed + end - begin - 1, block + inside, pool, STOCHASTIC)
    tl.store(pool + (destination * size + block) + inside, final, mask=destination >= 0)
