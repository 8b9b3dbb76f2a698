"""Causal attention over pages: a block of queries of one sequence and one head a program, online softmax.

Why a query's bits don't depend on its block: key blocks are counted from the sequence's first key, a row of a product
depends on that row of the left operand only, and keys that a query doesn't see change nothing: their weights are e^−∞ = 0
exactly, a block of them leaves the maximum, so the old sums are multiplied by e^0 = 1 and 0 is added.
"""

import triton
import triton.language as tl


@triton.jit
def weighted(weight, v, total, SPLIT: tl.constexpr):
    """total + weight · v. With bf16 values the fp32 weights are split into three bf16 terms (8 bits each, 24 in all)."""
    if SPLIT:
        high = weight.to(tl.bfloat16)
        rest = weight - high.to(tl.float32)
        middle = rest.to(tl.bfloat16)
        low = (rest - middle.to(tl.float32)).to(tl.bfloat16)
        total = tl.dot(low, v, total)
        total = tl.dot(middle, v, total)
        total = tl.dot(high, v, total)
    else:
        total = tl.dot(weight, v, total, input_precision="ieee")
    return total


@triton.jit
def rows_of(x_rows, wanted, first, D: tl.constexpr, BD: tl.constexpr):
    """Elements first … first + BD − 1 of rows of D; beyond a row and where not wanted: 0."""
    d = first + tl.arange(0, BD)[None, :]
    return tl.load(x_rows + d, mask=wanted & (d < D), other=0.0)


@triton.jit
def scores(q_rows, key_rows, queries, seen, D: tl.constexpr, BD: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr):
    """q · keysᵀ [BQ, BK] in ascending blocks of BD elements: an FMA product keeps its operands in registers."""
    s = tl.zeros((BQ, BK), tl.float32)
    for first in range(0, D, BD):
        k = rows_of(key_rows, seen, first, D, BD)
        s = tl.dot(rows_of(q_rows, queries, first, D, BD), tl.trans(k), s, input_precision="ieee")
    return s


@triton.jit(do_not_specialize_on_alignment=["pages", "page_start", "visible", "first", "count"])
def attention_kernel(
    q,
    keys,
    values,
    pages,
    page_start,
    visible,
    first,
    count,
    out,
    scale,
    H: tl.constexpr,
    D: tl.constexpr,
    V: tl.constexpr,
    BQ: tl.constexpr,
    BK: tl.constexpr,
    BD: tl.constexpr,
    BV: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """q [N, H, D]; keys [P, H, D]; values [P, H, V]; out [N, H, V]; block b: queries first[b] … + count[b] − 1."""
    block, h = tl.program_id(0) // H, tl.program_id(0) % H
    length = tl.load(count + block)
    if length > 0:
        n = tl.load(first + block).to(tl.int64) + tl.arange(0, BQ)[:, None]
        queries = tl.arange(0, BQ)[:, None] < length
        limit = tl.load(visible + n, mask=queries, other=0)
        base = tl.load(page_start + tl.load(first + block)).to(tl.int64)
        q_rows = q + (n * H + h) * D
        if SPLIT:
            whole = rows_of(q_rows, queries, 0, D, BD).to(tl.bfloat16)
        top = tl.full((BQ, 1), float("-inf"), tl.float32)
        norm = tl.zeros((BQ, 1), tl.float32)
        total = tl.zeros((BQ, BV), tl.float32)
        end = tl.max(limit)
        for start in range(0, end, BK):
            t = start + tl.arange(0, BK)
            page = tl.load(pages + base + t, mask=t < end, other=0).to(tl.int64)[:, None]
            seen = (t < end)[:, None]
            key_rows = keys + (page * H + h) * D
            if SPLIT:
                s = tl.dot(whole, tl.trans(rows_of(key_rows, seen, 0, D, BD)))
            else:
                s = scores(q_rows, key_rows, queries, seen, D, BD, BQ, BK)
            s = tl.where(t[None, :] < limit, s * scale, float("-inf"))
            higher = tl.maximum(top, tl.max(s, 1, keep_dims=True))
            # A row without a query has no key, and −∞ − (−∞) is NaN; it isn't stored, but it shouldn't trap either.
            shift = tl.where(higher == float("-inf"), 0.0, higher)
            weight = tl.exp(s - shift)
            decay = tl.exp(top - shift)
            norm = norm * decay + tl.sum(weight, 1, keep_dims=True)
            v = rows_of(values + (page * H + h) * V, seen, 0, V, BV)
            total = weighted(weight, v, total * decay, SPLIT)
            top = higher
        i = tl.arange(0, BV)[None, :]
        tl.store(out + (n * H + h) * V + i, total / norm, mask=queries & (i < V))
