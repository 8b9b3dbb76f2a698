"""Precisions of an intermediate, emulated: values stay in a wide container and are rounded to the narrow grid.

Rounding is to nearest, ties to even, as the hardware casts do, or toward zero where a recipe asks for it.
"""

from __future__ import annotations

from enum import StrEnum
from math import sqrt

import torch
from torch import Tensor


class Precision(StrEnum):
    """In which format a value is rounded. The value stays in fp32 or fp64; see :func:`round_to`."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    HILO = "hi-lo"
    """A pair of bf16: the value's bf16 and the bf16 of what that leaves (about 2^-17)."""


class Rounding(StrEnum):
    """Which of the two neighbours a value is rounded to: the nearest (ties to even), or the one nearer to zero."""

    NEAREST = "nearest"
    TOWARD_ZERO = "toward-zero"


_CAST = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}
_DROPPED_BITS = {Precision.TF32: 13, Precision.BF16: 16}

_SIGNIFICAND_BITS = {
    Precision.FP64: 52,
    Precision.FP32: 23,
    Precision.TF32: 10,
    Precision.FP16: 10,
    Precision.BF16: 7,
    Precision.HILO: 16,
}

#: Exponent of the smallest normal number; −126 for all that have the exponents of fp32.
_LOWEST_EXPONENT = {Precision.FP64: -1022, Precision.FP16: -14}

#: Root-mean-square relative error of one rounding to nearest for the worst distribution of significands, all next to 1:
#: the absolute error is uniform over one unit in the last place, 2^-p for a significand in [1, 2). With logarithmic density
#: 1 / (x ln 2) of significands the mean of 1/x² is 3 / (8 ln 2), so Gaussian states show 0.736 of it.
WORST_RMS = {name: 2.0**-bits / sqrt(12) for name, bits in _SIGNIFICAND_BITS.items()}


def _mask_low_bits(x: Tensor, bits: int, rounding: Rounding) -> Tensor:
    """Keep the high bits of fp32; adds half an ulp (ties to even) before the cut when rounding to nearest."""
    raw = x.contiguous().view(torch.int32)
    if rounding is Rounding.NEAREST:
        raw = raw + ((raw >> bits) & 1) + ((1 << (bits - 1)) - 1)
    return (raw & ~((1 << bits) - 1)).view(torch.float32)


def round_to(x: Tensor, precision: Precision, rounding: Rounding = Rounding.NEAREST) -> Tensor:
    """Round ``x`` [...] to ``precision``; the result keeps the container (fp32, or fp64 for FP64).

    Args:
        x: any shape, fp32 (fp64 when the whole recipe is FP64).
    """
    if precision in (Precision.FP32, Precision.FP64):
        return x
    if precision is Precision.HILO:
        high = round_to(x, Precision.BF16, rounding)
        return high + round_to(x - high, Precision.BF16, rounding)
    if rounding is Rounding.TOWARD_ZERO and precision is Precision.FP16:
        nearest = x.to(torch.float16)
        beyond = nearest.to(x.dtype).abs() > x.abs()
        return torch.where(beyond, torch.nextafter(nearest, torch.zeros_like(nearest)), nearest).to(x.dtype)
    if precision in _CAST and rounding is Rounding.NEAREST:
        return x.to(_CAST[precision]).to(x.dtype)
    return _mask_low_bits(x, _DROPPED_BITS[precision], rounding)


def spacing(x: Tensor, precision: Precision) -> Tensor:
    """Distance between neighbouring numbers of ``precision`` at the magnitude of x [...], as fp64 of x's shape.

    Below the smallest normal number it stays constant. For hi-lo, whose steps vary, it is that of the 16 bits it keeps.
    """
    exponent = torch.frexp(x.double()).exponent - 1
    lowest = _LOWEST_EXPONENT.get(precision, -126)
    exponent = torch.where(x == 0, lowest, exponent.clamp(min=lowest))
    return torch.ldexp(torch.ones_like(x, dtype=torch.float64), exponent - _SIGNIFICAND_BITS[precision])


def container(precision: Precision) -> torch.dtype:
    """The dtype in which values of a recipe with this activation precision are computed."""
    return torch.float64 if precision is Precision.FP64 else torch.float32
