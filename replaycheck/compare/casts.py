"""One cast of fp32 values to a pool dtype and back, in numpy: what storing a state once must do, and no more.

Round to nearest, ties to even. bf16 is emulated on bit patterns, since numpy has no bf16.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from replaycheck.schema.arm import PoolDtype

__all__ = ["BF16_UNIT", "cast"]

BF16_UNIT = 2.0**-8
"""Unit roundoff of bf16, 8 significant bits: rounding x to nearest changes it by at most 2^-8·|x|."""


def cast(values: NDArray[np.float32], pool: PoolDtype) -> NDArray[np.float32]:
    """``values`` [any shape, fp32] as they come back from a pool of that dtype; infinity where it overflows.

    >>> cast(np.array([1 + 2**-11 + 2**-23], np.float32), PoolDtype.FP16)  # via bf16 it would be 1
    array([1.0009766], dtype=float32)
    """
    if pool is PoolDtype.FP32:
        return values
    if pool is PoolDtype.BF16:
        return _through_bf16(values)
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def _through_bf16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Add half a unit in the last kept place (less one bit if that place is even), then drop the low 16 bits."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isnan(values), values, rounded)
