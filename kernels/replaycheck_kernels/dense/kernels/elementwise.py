"""Element by element: no value meets another one, so bits can't depend on the shape."""

import triton
import triton.language as tl

from .rounding import inverse_logistic, rounded


@triton.jit(do_not_specialize=["x_stride4", "y_stride4"])
def pair_kernel(
    x,
    y,
    out,
    x_stride4,
    y_stride4,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    OPERATION: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """x, y: rows of D fp32, 4·stride4 apart; out [rows, D]: SiLU(x)·y or x + y, rounded once."""
    COLUMNS: tl.constexpr = (D + BLOCK - 1) // BLOCK
    row = (tl.program_id(0) // COLUMNS).to(tl.int64)
    i = (tl.program_id(0) % COLUMNS) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + row * (x_stride4 * 4) + i, mask=i < D, other=0.0)
    b = tl.load(y + row * (y_stride4 * 4) + i, mask=i < D, other=0.0)
    value = a / inverse_logistic(a) * b if OPERATION == "swiglu" else a + b
    tl.store(out + row * D + i, rounded(value, PRECISION), mask=i < D)
