"""Projections: a matrix product whose element (n, o) is one ordered sum, whatever N is."""

from __future__ import annotations

import torch
from torch import Tensor

from ..precision import Precision
from .launch import aligned, on_device, power_of_two, rounding, rows, sized

_ROWS = 64
_NARROW = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


def prepare_weight(weight: Tensor, activation: Precision) -> Tensor:
    """The weight in the dtype in which products with activations of that precision are exact on tensor cores.

    To be called once, at load: it waits for the device.

    Args:
        weight: [out, in], any floating dtype.

    Returns:
        [out, in] in bf16 or fp16 if activations are rounded to it and every weight is on its grid; else in fp32.
    """
    narrow = _NARROW.get(activation)
    if narrow is not None and bool((weight.to(narrow).to(weight.dtype) == weight).all()):
        return aligned(weight.to(narrow))
    return aligned(weight.float())


def linear(x: Tensor, weight: Tensor, precision: Precision) -> Tensor:
    """x · weightᵀ, summed in fp32 and rounded once.

    The weight's dtype says how. bf16, fp16: tensor cores; x must hold values of that dtype, so every product is exact and
    fp32 sums of 16 products are added in ascending order. fp32: fused multiply-adds in ascending order of ``in``.

    Args:
        x: [N, in] fp32. weight: [out, in], from :func:`prepare_weight`.

    Returns:
        [N, out] fp32.

    Raises:
        ValueError: another dtype, device, shape or precision.
    """
    on_device("weight", weight, torch.bfloat16, torch.float16, torch.float32)
    sized("weight", weight, -1, x.shape[-1])
    x, x_stride4 = rows("x", x)
    weight = aligned(weight)
    N, (OUT, IN), name = x.shape[0], weight.shape, rounding(precision)
    out = x.new_empty((N, OUT))
    # fp32 products are FMAs whose operands wait in registers: tiles of half the depth keep them from being spilled.
    deepest, warps = (64, 4) if weight.dtype is not torch.float32 else (16, 8)
    BN, BK = power_of_two(OUT, 16, 64), power_of_two(IN, 16, deepest)
    if N:
        from .kernels.linear import linear_kernel

        grid = (-(-N // _ROWS) * -(-OUT // BN),)
        linear_kernel[grid](x, weight, out, N, x_stride4, IN, OUT, name, _ROWS, BN, BK, num_warps=warps, num_stages=3)
    return out
