"""Device functions that verify and commit share, so that both compute a record's key and decay with the same operations."""

from __future__ import annotations

import triton
import triton.language as tl

from ...triton.elements import EPSILON

STRAIGHT = tl.constexpr(20.0)
"""From here on softplus(y) is y in fp32: what is missing, e^-20 = 2e-9, is less than half a unit of y (9.5e-7)."""


@triton.jit
def normalised(x, RSQRT: tl.constexpr):
    """x / √(Σx² + 1e-6) of a vector; divided, or times rsqrt (``Recipe.recurrent_norm``)."""
    square = tl.sum(x * x, 0) + EPSILON
    if RSQRT:
        return x * tl.rsqrt(square)
    return x / tl.sqrt(square)


@triton.jit
def decay_of(raw, bias, rate, lower_bound, BOUNDED: tl.constexpr):
    """e^g with g = −rate·softplus(y), or lower_bound·sigmoid(rate·y); y = raw + bias."""
    y = raw + bias
    if BOUNDED:
        return tl.exp(lower_bound * tl.sigmoid(rate * y))
    # log(1 + z) loses the digits of a small z; log(u)·z/(u − 1) with u = fl(1 + z) keeps them (Goldberg 1991, th. 4).
    z = tl.exp(tl.minimum(y, STRAIGHT))
    u = 1.0 + z
    exact = tl.where(u == 1.0, z, tl.log(u) * (z / tl.where(u == 1.0, 1.0, u - 1.0)))
    return tl.exp(-rate * tl.where(y > STRAIGHT, y, exact))
