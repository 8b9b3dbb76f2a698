"""Provenance of bits: were the values of an fp32 or fp16 state rounded to bf16 before they were stored?

A value that was once bf16 keeps zero low mantissa bits when it is widened. The test reads stored
bits only; it needs no reference. It says nothing about a bf16 pool, nor about positions and slots.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from replaycheck.errors import InternalError, choices
from replaycheck.schema.arm import PoolDtype

__all__ = ["MIN_ELEMENTS", "bf16_share", "is_bf16_like"]

MIN_ELEMENTS = 64
"""With fewer elements that tell anything, no share is given. With 64, an honest fp16 state is taken for a rounded one
with probability 8^-64 = 1.6e-58: bf16 keeps 7 mantissa bits, so of fp16's 10 the low 3 must be zero by chance (of fp32's
23 the low 16). Sums of few products of bf16 numbers have fewer bits to begin with, and a larger share that fits."""

_LOW_BITS = np.uint32(0xFFFF)
_FP16_NORMAL = np.float32(2.0**-14)  # the smallest; below it fp16 has fewer bits, and values fit bf16 without rounding


def bf16_share(values: NDArray[Any], pool: PoolDtype) -> float:
    """Share of the elements of ``values`` [...] whose value fits bf16; NaN where fewer than 64 elements tell anything.

    ``values``: any shape, as stored or upcast exactly: fp32, or fp16. Zeros, infinities, NaN and, in an fp16 pool,
    subnormal numbers tell nothing and aren't counted.
    """
    bits, counted = _bits(values, pool)
    total = int(np.count_nonzero(counted))
    if total < MIN_ELEMENTS:
        return float("nan")
    return float(np.count_nonzero(counted & ((bits & _LOW_BITS) == 0)) / total)


def _bits(values: NDArray[Any], pool: PoolDtype) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    if values.dtype not in (np.dtype(np.float32), np.dtype(np.float16)):
        raise InternalError(
            f"provenance of {values.dtype} isn't defined; give one of {choices(['float32', 'float16'])}"
        )
    wide = np.ascontiguousarray(values, dtype=np.float32)
    smallest = _FP16_NORMAL if pool is PoolDtype.FP16 else np.float32(0)
    size = np.abs(wide)
    return wide.view(np.uint32), np.isfinite(wide) & (size > 0) & (size >= smallest)


def is_bf16_like(share: float, declared_bf16: bool) -> bool:
    """Whether a state counts as rounded to bf16 before it was stored: every element fits, and the pool isn't bf16.

    The rule asks for every element, not for more than chance: a state of few tokens is a sum of few products of bf16
    numbers (16 significant bits), and many more of its elements fit than 2^-16, honestly.
    """
    return not declared_bf16 and share == 1.0
