"""Blocks beside the diagonal of a chunk's q·k and k·k, and what the state pass reads of q and k.

One program per chunk and value head. The 16 × 16 blocks of a sub-chunk's rows are relative to the decay at its first
token, so both exponents are ≤ 0. Products run over whole 64 × 64 matrices whose other blocks are zero: a zero adds
nothing, and blocks of later rows are never read for earlier ones.

Two exponentials an element serve every decay: from the first token of its own sub-chunk, and up to the first token of the
next. Longer ways are products with factors between sub-chunks, all ≤ 1: some roundings in fp32 before the one to bf16.
"""

import triton
import triton.language as tl

from .elements import low, product, rounded, sigmoid


@triton.jit
def _between(local, count, channel, HV: tl.constexpr, K: tl.constexpr, s: tl.constexpr):
    """log2 decay [BK] of sub-chunk s: through its first token, and through its last; 0 without a token."""
    there = (16 * s < count) & (channel >= 0)
    end = tl.minimum(16 * s + 15, count - 1) * (HV * K)
    through_first = tl.load(local + 16 * s * HV * K + channel, mask=there, other=0.0)
    return through_first, tl.load(local + end + channel, mask=there, other=0.0)


@triton.jit
def _chosen(block, x0, x1, x2, x3):
    """The vector [BK] of each row's sub-chunk: [64, BK]."""
    lower = tl.where((block == 0)[:, None], x0[None, :], x1[None, :])
    upper = tl.where((block == 2)[:, None], x2[None, :], x3[None, :])
    return tl.where((block < 2)[:, None], lower, upper)


@triton.jit
def chunk_scores(
    b,  # [N, HV]
    local,  # [N, HV, K] fp32: log2 decay from the sub-chunk's start through the token
    chunks,  # [B, 2]: first token, tokens
    qk,  # [N, HV, 64], blocks beside the diagonal written
    kk,  # [N, HV, 64] fp32 with beta, blocks beside the diagonal, written
    w,  # [N, HV, K]: normalised k; β·k·2^G, written
    k_decayed,  # [N, HV, K], written
    q_decayed,  # [N, HV, K]: normalised q; decayed and scaled, written
    decay,  # [B, HV, K] fp32 of the whole chunk, written
    scale,
    HV: tl.constexpr,
    K: tl.constexpr,
    BK: tl.constexpr,
    BF16: tl.constexpr,
):
    """One chunk of one value head; grid (B, HV). See the module for the method."""
    chunk, hv = tl.program_id(0), tl.program_id(1)
    row, column = tl.arange(0, 64), tl.arange(0, 64)
    start, count = tl.load(chunks + 2 * chunk), tl.load(chunks + 2 * chunk + 1)
    live, block = row < count, row // 16
    alive, base = live[:, None], start.to(tl.int64) * HV + hv
    local, w, k_decayed, q_decayed = local + base * K, w + base * K, k_decayed + base * K, q_decayed + base * K
    kept = w.dtype.element_ty
    beta = sigmoid(tl.load(b + base + row * HV, mask=live, other=0.0).to(tl.float32))[:, None]
    products, scores = tl.zeros([64, 64], tl.float32), tl.zeros([64, 64], tl.float32)
    for first in range(0, K, BK):
        channel = first + tl.arange(0, BK)
        at_k = tl.multiple_of(row[:, None] * (HV * K) + channel[None, :], (1, 4))
        kn = tl.load(w + at_k, mask=alive, other=0.0).to(tl.float32)
        qn = tl.load(q_decayed + at_k, mask=alive, other=0.0).to(tl.float32)
        G = tl.load(local + at_k, mask=alive, other=0.0)
        tl.debug_barrier()  # w and q_decayed are read
        first_0, end_0 = _between(local, count, channel, HV, K, 0)
        first_1, end_1 = _between(local, count, channel, HV, K, 1)
        first_2, end_2 = _between(local, count, channel, HV, K, 2)
        first_3, end_3 = _between(local, count, channel, HV, K, 3)
        at_1, at_2, at_3 = end_0 + first_1, end_0 + end_1 + first_2, end_0 + end_1 + end_2 + first_3
        one = tl.full([BK], 1.0, tl.float32)
        # The first sub-chunk's rows count from the chunk's start: they have no block on their left.
        grown = tl.exp2(G - _chosen(block, first_0 * 0.0, first_1, first_2, first_3))
        growth = grown * _chosen(block, one, tl.exp2(at_1), tl.exp2(at_2), tl.exp2(at_3))
        tl.store(w + at_k, (kn * beta * growth).to(kept), mask=alive)
        tl.store(q_decayed + at_k, (rounded(qn * scale, BF16) * growth).to(kept), mask=alive)
        tl.store(decay + (chunk * HV + hv).to(tl.int64) * K + channel, tl.exp2(end_0 + end_1 + end_2 + end_3))
        left_k, left_q = low(kn * grown, BF16), low(qn * grown, BF16)
        to_next = kn * tl.exp2(_chosen(block, end_0 + first_1, end_1 + first_2, end_2 + first_3, end_3) - G)
        # Keys decayed to the first token of sub-chunk s, and zero from there on.
        shrunk = tl.where((block == 0)[:, None], to_next, 0.0)
        for s in tl.static_range(1, 4):
            right, here = tl.trans(low(shrunk, BF16)), (block == s)[:, None]
            products += tl.where(here, product(left_k, right, BF16), 0.0)
            scores += tl.where(here, product(left_q, right, BF16), 0.0)
            if s == 1:
                way = end_1 - first_1 + first_2
            elif s == 2:
                way = end_2 - first_2 + first_3
            else:
                way = end_3 - first_3
            shrunk = tl.where(here, to_next, shrunk * tl.exp2(way)[None, :])
        tl.store(k_decayed + at_k, shrunk.to(kept), mask=alive)
    at_score = row[:, None] * (HV * 64) + column[None, :]
    beside = alive & (block[:, None] != (column // 16)[None, :])
    tl.store(qk + base * 64 + at_score, (scores * scale).to(kept), mask=beside)
    tl.store(kk + base * 64 + at_score, products * beta, mask=beside)
