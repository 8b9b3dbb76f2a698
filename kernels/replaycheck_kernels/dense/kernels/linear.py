"""x · weightᵀ in tiles of constant size; an element's sum runs over ``in`` in ascending blocks, within one program."""

import triton
import triton.language as tl

from .rounding import rounded


@triton.jit(do_not_specialize=["N", "x_stride4"])
def linear_kernel(
    x,
    weight,
    out,
    N,
    x_stride4,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """x [N, IN] fp32, rows 4·x_stride4 apart; weight [OUT, IN]; out [N, OUT] fp32."""
    COLUMNS: tl.constexpr = (OUT + BN - 1) // BN
    tile = tl.program_id(0)
    rows = (tile // COLUMNS) * BM + tl.arange(0, BM)
    columns = (tile % COLUMNS) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    x_rows = x + rows[:, None].to(tl.int64) * (x_stride4 * 4)
    weight_rows = weight + columns[:, None] * IN
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, IN, BK):
        k = first + inner[None, :]
        # Where BK divides IN the second condition is true for every k, and the compiler can't know it.
        if IN % BK == 0:
            a = tl.load(x_rows + k, mask=rows[:, None] < N, other=0.0)
            b = tl.load(weight_rows + k, mask=columns[:, None] < OUT, other=0.0)
        else:
            a = tl.load(x_rows + k, mask=(rows[:, None] < N) & (k < IN), other=0.0)
            b = tl.load(weight_rows + k, mask=(columns[:, None] < OUT) & (k < IN), other=0.0)
        total = tl.dot(a.to(weight.dtype.element_ty), tl.trans(b), total, input_precision="ieee")
    place = rows[:, None].to(tl.int64) * OUT + columns[None, :]
    tl.store(out + place, rounded(total, PRECISION), mask=(rows[:, None] < N) & (columns[None, :] < OUT))
