"""Diagonal 16 × 16 blocks of a chunk: q·k, and the inverse of the unit lower triangle of k·k, in fp32.

Each pair's own difference of cumulative decays is the exponent (the recipes' form ``direct``), so no reference can
overflow, however strong the decay. One program per sub-chunk and value head, one warp: nothing crosses a barrier.
A column j is finished before column j + 1 begins, and rows above are left out by selection, so row i takes part in no
value of an earlier row.
"""

import triton
import triton.language as tl

from .elements import cumulative, pick, roots, sigmoid, units


@triton.jit
def diagonal_blocks(
    q,  # [N, H, K]
    k,  # [N, H, K]
    a,  # [N, HV, GW]
    b,  # [N, HV]
    A_log,  # [HV]
    dt_bias,  # [HV, GW]
    chunks,  # [B, 2]: first token, tokens
    qk,  # [N, HV, 64], diagonal blocks written
    inverse,  # [N, HV, 16] fp32, written
    bound,
    scale,
    H: tl.constexpr,
    HV: tl.constexpr,
    K: tl.constexpr,
    GW: tl.constexpr,  # K, or 1 with one decay a head
    BK: tl.constexpr,
    BG: tl.constexpr,  # BK, or 1
    BOUNDED: tl.constexpr,
    BF16: tl.constexpr,
):
    chunk, sub, hv = tl.program_id(0) // 4, tl.program_id(0) % 4, tl.program_id(1)
    h = hv // (HV // H)
    row, column = tl.arange(0, 16), tl.arange(0, 16)
    place = sub * 16 + row
    count = tl.load(chunks + 2 * chunk + 1)
    if sub * 16 >= count:
        return
    live = place < count
    token = (tl.load(chunks + 2 * chunk) + place).to(tl.int64)
    at, at_value = token * H + h, token * HV + hv
    beta = sigmoid(tl.load(b + at_value, mask=live, other=0.0).to(tl.float32))
    rate = tl.exp(tl.load(A_log + hv))
    root_q, root_k = roots(q, at, live, K, BK), roots(k, at, live, K, BK)
    kk, scores = tl.zeros([16, 16], tl.float32), tl.zeros([16, 16], tl.float32)
    for first in range(0, K, BK):
        qn, kn = units(q, at, live, root_q, first, K, BK, BF16), units(k, at, live, root_k, first, K, BK, BF16)
        gate = (first if GW > 1 else 0) + tl.arange(0, BG)
        G = cumulative(a, at_value, live, rate, dt_bias + hv * GW, bound, gate, GW, BOUNDED)
        for j in tl.static_range(16):
            decayed = pick(kn, row, j)[None, :] * tl.exp2(G - pick(G, row, j)[None, :])
            kk += tl.where(column[None, :] == j, tl.sum(kn * decayed, 1)[:, None], 0.0)
            scores += tl.where(column[None, :] == j, tl.sum(qn * decayed, 1)[:, None], 0.0)
    kk = tl.where(row[:, None] > column[None, :], kk * beta[:, None], 0.0)
    scores = tl.where(row[:, None] >= column[None, :], scores * scale, 0.0)
    at_score = at_value[:, None] * 64 + sub * 16 + column[None, :]
    tl.store(qk + at_score, scores.to(qk.dtype.element_ty), mask=live[:, None])
    x = tl.where(row[:, None] == column[None, :], 1.0, 0.0)
    for j in tl.static_range(15):
        below = tl.sum(tl.where(column[None, :] == j, kk, -0.0), 1)
        x = x - below[:, None] * pick(x, row, j)[None, :]
    tl.store(inverse + at_value[:, None] * 16 + column[None, :], x, mask=live[:, None])
