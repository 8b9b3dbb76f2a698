"""What the state pass reads where decays multiply finished products, as GDN kernels have it (``Recipe.decay_on``).

With one decay a head the ratio 2^(G_i − G_j) is one number a pair of tokens, so q·k and k·k are plain products of bf16
operands, multiplied afterwards. One program per chunk and value head does all of it: scores, the inverse (16 × 16 blocks by
substitution, then the merges of ``operands``), U and W.

A row's values need itself and earlier rows: ratios above the diagonal are never used, and what the triangles hold there is
zero.
"""

import triton
import triton.language as tl

from .elements import log_decay, low, product, roots, rounded, sigmoid, units
from .operands import inverse_of_blocks


@triton.jit
def _own_inverse(A, row, column):
    """(I + A)^-1 of the 16 × 16 blocks on the diagonal of A [64, 64]; zero elsewhere."""
    x = tl.where(row[:, None] == column[None, :], 1.0, 0.0)
    own = (row // 16)[:, None] == (column // 16)[None, :]
    place = tl.arange(0, 16)[None, :, None]
    for j in tl.static_range(15):
        below = tl.sum(tl.where(own & (column % 16 == j)[None, :], A, -0.0), 1)
        blocks = tl.reshape(x, (4, 16, 64))
        above = tl.sum(tl.where(place == j, blocks, -0.0), 1, keep_dims=True)
        spread = tl.reshape(tl.broadcast_to(above, (4, 16, 64)), (64, 64))
        x = x - below[:, None] * spread
    return x


@triton.jit
def head_operands(
    q,  # [N, H, K]
    k,  # [N, H, K]
    v,  # [N, HV, V]
    a,  # [N, HV]
    b,  # [N, HV]
    A_log,  # [HV]
    dt_bias,  # [HV]
    chunks,  # [B, 2]: first token, tokens
    qk,  # [N, HV, 64], written
    w,  # [N, HV, K], written
    u,  # [N, HV, V], written
    k_unit,  # [N, HV, K], written
    q_unit,  # [N, HV, K], written
    growth,  # [N, HV] fp32: decay from the chunk's start through the token, written
    remaining,  # [N, HV] fp32: decay after the token to the chunk's end, written
    decay,  # [B, HV, K] fp32 of the whole chunk, the same for all channels, written
    bound,
    H: tl.constexpr,
    HV: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    BOUNDED: tl.constexpr,
    BF16: tl.constexpr,
):
    """One chunk of one value head; grid (B, HV). See the module for the method."""
    chunk, hv = tl.program_id(0), tl.program_id(1)
    h = hv // (HV // H)
    row, column = tl.arange(0, 64), tl.arange(0, 64)
    start, count = tl.load(chunks + 2 * chunk).to(tl.int64), tl.load(chunks + 2 * chunk + 1)
    live, base = row < count, start * HV + hv
    alive, at = live[:, None], row[:, None] * HV
    q, k = q + (start * H + h) * K, k + (start * H + h) * K
    w, k_unit, q_unit = w + base * K, k_unit + base * K, q_unit + base * K
    raw = tl.load(a + base + row * HV, mask=live, other=0.0).to(tl.float32)
    g = log_decay(raw, tl.exp(tl.load(A_log + hv)), tl.load(dt_bias + hv), bound, BOUNDED)
    G = tl.cumsum(tl.where(live, g, 0.0), 0)
    last = tl.sum(tl.where(row == 63, G, -0.0), 0)
    grown = tl.exp(G)
    tl.store(growth + base + row * HV, grown, mask=live)
    tl.store(remaining + base + row * HV, tl.exp(last - G), mask=live)
    beta = rounded(sigmoid(tl.load(b + base + row * HV, mask=live, other=0.0).to(tl.float32)), BF16)[:, None]
    root_q, root_k = roots(q, row * H, live, K, BK), roots(k, row * H, live, K, BK)
    over_q, over_k = tl.div_rn(1.0, root_q), tl.div_rn(1.0, root_k)
    kk, scores = tl.zeros([64, 64], tl.float32), tl.zeros([64, 64], tl.float32)
    for first in range(0, K, BK):
        channel = first + tl.arange(0, BK)
        qn = units(q, row * H, live, root_q, over_q, channel, K, BF16)
        kn = units(k, row * H, live, root_k, over_k, channel, K, BF16)
        at_k = tl.multiple_of(at * K + channel[None, :], (1, 4))
        tl.store(q_unit + at_k, qn.to(q_unit.dtype.element_ty), mask=alive)
        tl.store(k_unit + at_k, kn.to(k_unit.dtype.element_ty), mask=alive)
        tl.store(w + at_k, (kn * beta * grown[:, None]).to(w.dtype.element_ty), mask=alive)
        tl.store(decay + (chunk * HV + hv).to(tl.int64) * K + channel, tl.exp(last) + channel * 0.0)
        right = tl.trans(low(kn, BF16))
        kk += product(low(kn, BF16), right, BF16)
        scores += product(low(qn, BF16), right, BF16)
    down = row[:, None] - column[None, :]
    ratio = tl.exp(tl.where(down >= 0, G[:, None] - G[None, :], 0.0))
    kk = tl.where(down > 0, kk * ratio * beta, 0.0)
    scores = tl.where(down >= 0, scores * ratio, 0.0)
    tl.store(qk + base * 64 + at * 64 + column[None, :], scores.to(qk.dtype.element_ty), mask=alive)
    distance = (row // 16)[:, None] - (column // 16)[None, :]
    own = _own_inverse(kk, row, column)
    T = low(inverse_of_blocks(tl.where(distance > 0, kk, 0.0), own, distance, BF16), BF16)
    v, u = v + base * V, u + base * V
    for first in range(0, V, BV):
        value = first + tl.arange(0, BV)
        at_v, inside = at * V + value[None, :], alive & (value < V)[None, :]
        weighted = tl.load(v + at_v, mask=inside, other=0.0).to(tl.float32) * beta
        tl.store(u + at_v, product(T, low(weighted, BF16), BF16).to(u.dtype.element_ty), mask=inside)
    tl.debug_barrier()  # w is written
    for first in range(0, K, BK):
        at_k = at * K + first + tl.arange(0, BK)[None, :]
        part = product(T, tl.load(w + at_k, mask=alive, other=0.0), BF16)
        tl.debug_barrier()  # this part of w is read
        tl.store(w + at_k, part.to(w.dtype.element_ty), mask=alive)
