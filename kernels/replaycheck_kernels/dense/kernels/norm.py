"""RMS norms, one row a program: the order of a row's sum is that of the compiled kernel, whatever else is computed."""

import triton
import triton.language as tl

from .rounding import inverse_logistic, rounded


@triton.jit(do_not_specialize=["x_stride4", "gate_stride4"])
def rms_norm_kernel(
    x,
    gate,
    weight,
    out,
    x_stride4,
    gate_stride4,
    epsilon,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    GATED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """x, gate: rows of D fp32, 4·stride4 apart; weight [D]; out [rows, D]."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    inside = i < D
    value = tl.load(x + row * (x_stride4 * 4) + i, mask=inside, other=0.0)
    mean = tl.sum(value * value, 0) / D
    normal = value * tl.div_rn(1.0, tl.sqrt_rn(mean + epsilon)) * tl.load(weight + i, mask=inside, other=0.0)
    if GATED:
        normal = normal / inverse_logistic(tl.load(gate + row * (gate_stride4 * 4) + i, mask=inside, other=0.0))
    tl.store(out + row * D + i, rounded(normal, PRECISION), mask=inside)
