"""The MLP's gate and the residual stream: pairs of values, rounded once."""

from __future__ import annotations

from torch import Tensor

from ..precision import Precision
from .launch import power_of_two, rounding, rows, sized


def swiglu(gate: Tensor, up: Tensor, precision: Precision) -> Tensor:
    """SiLU(gate) · up, rounded once.

    Args:
        gate, up: [N, I] fp32, e.g. the two halves of one projection.

    Returns:
        [N, I] fp32.
    """
    return _pair("swiglu", gate, up, precision)


def add_rounded(x: Tensor, y: Tensor, precision: Precision) -> Tensor:
    """x + y, rounded once. x, y: [N, D] fp32."""
    return _pair("add", x, y, precision)


def _pair(operation: str, x: Tensor, y: Tensor, precision: Precision) -> Tensor:
    sized("the second operand", y, *x.shape)
    x, x_stride4 = rows("the first operand", x)
    y, y_stride4 = rows("the second operand", y)
    (N, D), name = x.shape, rounding(precision)
    out = x.new_empty((N, D))
    if N:
        from .kernels.elementwise import pair_kernel

        block = power_of_two(D, 16, 1024)
        grid = (N * -(-D // block),)
        pair_kernel[grid](
            x,
            y,
            out,
            x_stride4,
            y_stride4,
            D,
            block,
            operation,
            name,
            num_warps=power_of_two(block // 128, 1, 4),
        )
    return out
