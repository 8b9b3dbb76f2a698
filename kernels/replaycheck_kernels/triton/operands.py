"""U and W of a chunk: the inverse of its unit lower triangle, times β·v and β·k·2^G.

One program per chunk and value head. The inverse grows from its diagonal blocks by distance from the diagonal, each block
by the products of the emulator, left first beside the diagonal. Products run over whole 64 × 64 matrices whose other
blocks are zero, and blocks of later rows are never read for earlier ones.
"""

import triton
import triton.language as tl

from .elements import low, merge, merged, product, sigmoid


@triton.jit
def inverse_of_blocks(A, D, distance, BF16: tl.constexpr):
    """(I + A)^-1 of [64, 64] from its diagonal blocks D; A holds the blocks beside them."""
    near, corner = merged(A, BF16), merged(D, BF16)
    beside = merged(tl.where(distance == 1, merge(corner, near, BF16), 0.0), BF16)
    X = D - merge(beside, corner, BF16)
    for d in tl.static_range(2, 4):
        beside = merged(tl.where(distance == d, merge(near, merged(X, BF16), BF16), 0.0), BF16)
        X = X - merge(corner, beside, BF16)
    return X


@triton.jit
def chunk_operands(
    v,  # [N, HV, V]
    b,  # [N, HV]
    chunks,  # [B, 2]: first token, tokens
    kk,  # [N, HV, 64] fp32: blocks beside the diagonal
    inverse,  # [N, HV, 16] fp32: diagonal blocks
    w,  # [N, HV, K]: β·k·2^G; W, written
    u,  # [N, HV, V], written
    HV: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    BF16: tl.constexpr,
):
    """One chunk of one value head; grid (B, HV). See the module for the method."""
    chunk, hv = tl.program_id(0), tl.program_id(1)
    row, column = tl.arange(0, 64), tl.arange(0, 64)
    live = row < tl.load(chunks + 2 * chunk + 1)
    alive, base = live[:, None], tl.load(chunks + 2 * chunk).to(tl.int64) * HV + hv
    at, v, u, w = row[:, None] * HV, v + base * V, u + base * V, w + base * K
    distance = (row // 16)[:, None] - (column // 16)[None, :]
    A = tl.load(kk + base * 64 + at * 64 + column[None, :], mask=alive & (distance > 0), other=0.0)
    at_block = at * 16 + (column % 16)[None, :]
    D = tl.load(inverse + base * 16 + at_block, mask=alive & (distance == 0), other=0.0)
    T = low(inverse_of_blocks(A, D, distance, BF16), BF16)
    beta = sigmoid(tl.load(b + base + row * HV, mask=live, other=0.0).to(tl.float32))[:, None]
    for first in range(0, V, BV):
        value = first + tl.arange(0, BV)
        at_v = at * V + value[None, :]
        inside = alive & (value < V)[None, :]
        weighted = tl.load(v + at_v, mask=inside, other=0.0).to(tl.float32) * beta
        tl.store(u + at_v, product(T, low(weighted, BF16), BF16).to(u.dtype.element_ty), mask=inside)
    for first in range(0, K, BK):
        at_k = at * K + first + tl.arange(0, BK)[None, :]
        part = product(T, tl.load(w + at_k, mask=alive, other=0.0), BF16)
        tl.debug_barrier()  # this part of w is read
        tl.store(w + at_k, part.to(w.dtype.element_ty), mask=alive)
