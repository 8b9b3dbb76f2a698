"""Diagonal 16 × 16 blocks of a chunk: q·k, and the inverse of the unit lower triangle of k·k, in fp32.

The recipes' form ``direct`` decays each pair (i, j) by its own 2^(G_i − G_j). Here pairs fall into four levels, by the
size of the smallest aligned block of rows that holds both (16, 8, 4 or 2): i is in its second half, j in its first. The
ratio is a product of two factors relative to the second half's first row, both exponents ≤ 0 however strong the decay:
nothing overflows, and a factor underflows only where the ratio does. A level is one product of fp32 matrices
(``elements.fine``): the sums of the recipe in another order.

Pairs are selected from each product, so a row takes part in no value of an earlier one. One program per sub-chunk and
value head, one warp. It leaves normalised q and k and the cumulative decays to the next kernel.
"""

import triton
import triton.language as tl

from .elements import LOG2E, fine, fine_right, log_decay, low, parts, pick, roots, sigmoid, units


@triton.jit
def _relative(G, HALF: tl.constexpr, BK: tl.constexpr):
    """−|G − G of the first row of the second half| in each block of 2·HALF rows: [16, BK]."""
    blocks = tl.reshape(G, (8 // HALF, 2 * HALF, BK))
    place = tl.arange(0, 2 * HALF)[None, :, None]
    reference = tl.sum(tl.where(place == HALF, blocks, -0.0), 1, keep_dims=True)
    return tl.reshape(-tl.abs(blocks - reference), (16, BK))


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
    q_unit,  # [N, HV, K], written
    k_unit,  # [N, HV, K], written
    local,  # [N, HV, K] fp32: log2 decay from the sub-chunk's start through the token, written
    bound,
    scale,
    H: tl.constexpr,
    HV: tl.constexpr,
    K: tl.constexpr,
    GW: tl.constexpr,  # K, or 1 with one decay a head
    BK: tl.constexpr,
    BOUNDED: tl.constexpr,
    BF16: tl.constexpr,
):
    """One sub-chunk of one value head; grid (4·B, HV). See the module for the method."""
    chunk, sub, hv = tl.program_id(0) // 4, tl.program_id(0) % 4, tl.program_id(1)
    h = hv // (HV // H)
    row, column = tl.arange(0, 16), tl.arange(0, 16)
    place = sub * 16 + row
    count = tl.load(chunks + 2 * chunk + 1)
    if sub * 16 >= count:
        return
    live = place < count
    token = (tl.load(chunks + 2 * chunk) + sub * 16).to(tl.int64)
    base, alive, at = token * HV + hv, live[:, None], row[:, None] * HV
    q, k, a = q + (token * H + h) * K, k + (token * H + h) * K, a + base * GW
    q_unit, k_unit, local = q_unit + base * K, k_unit + base * K, local + base * K
    rate = tl.exp(tl.load(A_log + hv))
    root_q, root_k = roots(q, row * H, live, K, BK), roots(k, row * H, live, K, BK)
    over_q, over_k = tl.div_rn(1.0, root_q), tl.div_rn(1.0, root_k)
    kk, scores = tl.zeros([16, 16], tl.float32), tl.zeros([16, 16], tl.float32)
    apart, own = row[:, None] ^ column[None, :], tl.zeros([16], tl.float32)
    for first in range(0, K, BK):
        channel = first + tl.arange(0, BK)
        qn = units(q, row * H, live, root_q, over_q, channel, K, BF16)
        kn = units(k, row * H, live, root_k, over_k, channel, K, BF16)
        gate = channel if GW > 1 else channel * 0
        # Four channels a thread, as fp32 is stored: else decays would be computed once a layout.
        at_gate = tl.multiple_of(at * GW + gate[None, :], (1, 4 if GW > 1 else 1))
        raw = tl.load(a + at_gate, mask=alive, other=0.0).to(tl.float32)
        g = log_decay(raw, rate, tl.load(dt_bias + hv * GW + gate)[None, :], bound, BOUNDED)
        G = tl.cumsum(tl.where(alive, g, 0.0), 0) * LOG2E
        at_k = tl.multiple_of(at * K + channel[None, :], (1, 4))
        tl.store(q_unit + at_k, qn.to(q_unit.dtype.element_ty), mask=alive)
        tl.store(k_unit + at_k, kn.to(k_unit.dtype.element_ty), mask=alive)
        tl.store(local + at_k, G, mask=alive)
        own += tl.sum(qn * kn, 1)
        for level in tl.static_range(4):
            decay = tl.exp2(_relative(G, 8 >> level, BK))
            k_high, k_middle, k_low = parts(kn * decay, BF16)
            # The highest bit in which i and j differ is the half's: i is in the second half and j in the first, if i > j.
            pairs = (apart >= 8 >> level) & (apart < 16 >> level) & (row[:, None] > column[None, :])
            if level < 3:
                q_high, q_middle, q_low = parts(qn * decay, BF16)
                more_kk = fine(k_high, k_middle, k_low, k_high, k_middle, k_low, kk, BF16)
                more_scores = fine(q_high, q_middle, q_low, k_high, k_middle, k_low, scores, BF16)
            else:  # a second half of one row is its own reference: its factor is 1
                more_kk = fine_right(low(kn, BF16), k_high, k_middle, k_low, kk, BF16)
                more_scores = fine_right(low(qn, BF16), k_high, k_middle, k_low, scores, BF16)
            kk, scores = tl.where(pairs, more_kk, kk), tl.where(pairs, more_scores, scores)
    beta = sigmoid(tl.load(b + base + row * HV, mask=live, other=0.0).to(tl.float32))
    kk = kk * beta[:, None]
    scores = tl.where(row[:, None] == column[None, :], own[:, None], scores) * scale
    at_score = at * 64 + sub * 16 + column[None, :]
    tl.store(qk + base * 64 + at_score, scores.to(qk.dtype.element_ty), mask=alive)
    x = tl.where(row[:, None] == column[None, :], 1.0, 0.0)
    for j in tl.static_range(15):
        below = tl.sum(tl.where(column[None, :] == j, kk, -0.0), 1)
        x = x - below[:, None] * pick(x, row, j)[None, :]
    tl.store(inverse + base * 16 + at * 16 + column[None, :], x, mask=alive)
