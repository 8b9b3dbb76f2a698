"""What a chunk of 64 tokens contributes apart from the state: U, W, decayed k and q, q·k beside the diagonal blocks.

One program per chunk and value head. Off-diagonal 16 × 16 blocks are relative to the decay at the first token of their
rows, so both exponents are ≤ 0; the inverse of the unit lower triangle grows from its diagonal blocks by distance from
the diagonal, each block by the products of the emulator, left first beside the diagonal. Products run over whole 64 × 64
matrices whose other blocks are zero: a zero adds nothing, and blocks of later rows are never read for earlier ones.
"""

import triton
import triton.language as tl

from .elements import cumulative, low, merge, pick, product, roots, rounded, sigmoid, units


@triton.jit
def _blocks(kk, qk, kn, qn, G, row, BF16: tl.constexpr):
    """Add some channels to k·k and q·k left of the diagonal blocks, [64, 64] each, without beta and scale."""
    block = row // 16
    own = tl.zeros_like(G)
    for s in tl.static_range(1, 4):
        own = tl.where((block == s)[:, None], pick(G, row, 16 * s)[None, :], own)
    # Rows of the first sub-chunk have no block on their left.
    grown = tl.exp2(tl.where((row >= 16)[:, None], G - own, 0.0))
    left_k, left_q = low(kn * grown, BF16), low(qn * grown, BF16)
    for s in tl.static_range(1, 4):
        before = (row < 16 * s)[:, None]
        shrunk = tl.exp2(tl.where(before, pick(G, row, 16 * s)[None, :] - G, 0.0))
        right = tl.trans(low(tl.where(before, kn * shrunk, 0.0), BF16))
        here = (block == s)[:, None]
        kk += tl.where(here, product(left_k, right, BF16), 0.0)
        qk += tl.where(here, product(left_q, right, BF16), 0.0)
    return kk, qk


@triton.jit
def _inverse(A, D, distance, BF16: tl.constexpr):
    """(I + A)^-1 of [64, 64] from its diagonal blocks D; A holds the blocks beside them."""
    X = D - merge(tl.where(distance == 1, merge(D, A, BF16), 0.0), D, BF16)
    for d in tl.static_range(2, 4):
        X = X - merge(D, tl.where(distance == d, merge(A, X, BF16), 0.0), BF16)
    return X


@triton.jit
def chunk_operands(
    q,  # [N, H, K]
    k,  # [N, H, K]
    v,  # [N, HV, V]
    a,  # [N, HV, GW]
    b,  # [N, HV]
    A_log,  # [HV]
    dt_bias,  # [HV, GW]
    chunks,  # [B, 2]: first token, tokens
    inverse,  # [N, HV, 16] fp32: diagonal blocks
    qk,  # [N, HV, 64], blocks beside the diagonal written
    w,  # [N, HV, K], written
    u,  # [N, HV, V], written
    k_decayed,  # [N, HV, K], written
    q_decayed,  # [N, HV, K], written
    decay,  # [B, HV, GW] fp32 of the whole chunk, written
    bound,
    scale,
    H: tl.constexpr,
    HV: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    GW: tl.constexpr,  # K, or 1 with one decay a head
    BK: tl.constexpr,
    BG: tl.constexpr,  # BK, or 1
    BV: tl.constexpr,
    BOUNDED: tl.constexpr,
    BF16: tl.constexpr,
):
    chunk, hv = tl.program_id(0), tl.program_id(1)
    h = hv // (HV // H)
    row, column = tl.arange(0, 64), tl.arange(0, 64)
    live = row < tl.load(chunks + 2 * chunk + 1)
    token = (tl.load(chunks + 2 * chunk) + row).to(tl.int64)
    at, at_value, alive = token * H + h, token * HV + hv, live[:, None]
    kept = w.dtype.element_ty
    beta = sigmoid(tl.load(b + at_value, mask=live, other=0.0).to(tl.float32))[:, None]
    rate = tl.exp(tl.load(A_log + hv))
    root_q, root_k = roots(q, at, live, K, BK), roots(k, at, live, K, BK)

    # 1. Scores, and what the state pass reads of q and k. The operand of W waits in w.
    kk, scores = tl.zeros([64, 64], tl.float32), tl.zeros([64, 64], tl.float32)
    for first in range(0, K, BK):
        kn, qn = units(k, at, live, root_k, first, K, BK, BF16), units(q, at, live, root_q, first, K, BK, BF16)
        gate = (first if GW > 1 else 0) + tl.arange(0, BG)
        G = cumulative(a, at_value, live, rate, dt_bias + hv * GW, bound, gate, GW, BOUNDED)
        last, growth = pick(G, row, 63), tl.exp2(G)
        at_k = at_value[:, None] * K + first + tl.arange(0, BK)[None, :]
        tl.store(w + at_k, (kn * beta * growth).to(kept), mask=alive)
        tl.store(k_decayed + at_k, (kn * tl.exp2(last[None, :] - G)).to(kept), mask=alive)
        tl.store(q_decayed + at_k, (rounded(qn * scale, BF16) * growth).to(kept), mask=alive)
        tl.store(decay + (chunk * HV + hv).to(tl.int64) * GW + gate, tl.exp2(last))
        kk, scores = _blocks(kk, scores, kn, qn, G, row, BF16)
    distance = (row // 16)[:, None] - (column // 16)[None, :]
    at_score = at_value[:, None] * 64 + column[None, :]
    tl.store(qk + at_score, (scores * scale).to(kept), mask=alive & (distance != 0))

    # 2. The inverse
    at_block = at_value[:, None] * 16 + (column % 16)[None, :]
    D = tl.load(inverse + at_block, mask=alive & (distance == 0), other=0.0)
    T = low(_inverse(kk * beta, D, distance, BF16), BF16)

    # 3. U and W
    for first in range(0, V, BV):
        value = first + tl.arange(0, BV)
        at_v = at_value[:, None] * V + value[None, :]
        inside = alive & (value < V)[None, :]
        weighted = tl.load(v + at_v, mask=inside, other=0.0).to(tl.float32) * beta
        tl.store(u + at_v, product(T, low(weighted, BF16), BF16).to(kept), mask=inside)
    tl.debug_barrier()  # all of w's operand is written
    for first in range(0, K, BK):
        at_k = at_value[:, None] * K + first + tl.arange(0, BK)[None, :]
        block = product(T, tl.load(w + at_k, mask=alive, other=0.0), BF16)
        tl.debug_barrier()  # and this block of it is read
        tl.store(w + at_k, block.to(kept), mask=alive)
