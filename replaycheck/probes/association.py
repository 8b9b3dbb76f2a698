"""Is what a pool holds one cast of an accumulator, where the accumulator that is seen comes from another program?

Triton compiles a kernel once for each pool dtype, and its sums over K may run in another order (docs/findings.md: a pool of
another dtype is another program). So the accumulator that a call with an fp32 pool shows isn't the one that was cast: fp32
association separates them. Row v of a state is S_v·diag(e^g) + u_v k with u_v from a sum over K of that row's elements: the
error of each element goes with the row's magnitude, and is many units of an element that is small beside its row. An element
of the pool that isn't the cast of what is seen is right if it lies within half a unit and that error.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, sqrt

import torch
from torch import Tensor

from replaycheck_kernels.error_model import predict
from replaycheck_kernels.precision import Precision, spacing
from replaycheck_kernels.recipe import EXACT

PRECISION = {torch.float32: Precision.FP32, torch.bfloat16: Precision.BF16, torch.float16: Precision.FP16}
_SIGMAS = 3.0


@dataclass(frozen=True)
class Flips:
    """What fp32 association may do to a cast.

    Attributes:
        reach: how far each element may be from the accumulator that is seen: half a unit and the largest error.
        expected: elements that round to another number than the accumulator that is seen; a mean.
        relative: Frobenius norm of these differences over that of the state, three standard deviations included.
    """

    reach: Tensor
    expected: float
    relative: float

    @property
    def allowed(self) -> float:
        """Three standard deviations of a count, and one, which may always be."""
        return self.expected + _SIGMAS * sqrt(self.expected) + 1

    def beyond(self, stored: Tensor, accumulator: Tensor) -> Tensor:
        """[...] bool: elements that are no cast of any accumulator that the seen one stands for; equal infinities are."""
        cast = accumulator.to(stored.dtype)
        return (stored != cast) & ~((stored.double() - accumulator.double()).abs() <= self.reach)


def flips(accumulator: Tensor, initial: Tensor, dtype: torch.dtype) -> Flips:
    """For a cast of final states [R, HV, V, K] to ``dtype``, computed from ``initial``.

    Each of two evaluations has the error that a recipe without rounding predicts, relative to a row's magnitude; their
    difference δ is √2 of it. A boundary lies between them with the probability E|δ| / unit, and of n normal errors the
    largest is √(2 ln n) standard deviations.
    """
    final, first = accumulator.double(), initial.double()
    rows = torch.maximum(final.square().mean(-1, keepdim=True), first.square().mean(-1, keepdim=True)).sqrt()
    apart = sqrt(2) * predict(EXACT, "recurrent", final.shape[-1], 0.0).state * rows
    unit = spacing(final, PRECISION[dtype])
    crossed = torch.clamp(apart * sqrt(2 / pi) / unit, max=1.0)
    moved = torch.maximum(unit, apart).square()
    # Of two numbers that lie δ apart the casts differ by Δ with E[Δ²] ≤ δ² + |δ|·unit.
    mean = float((apart * sqrt(2 / pi) * unit + apart.square()).sum())
    deviation = float((crossed * moved.square()).sum().sqrt())
    size = float(final.norm())
    relative = sqrt(mean + _SIGMAS * deviation) / size if size else 0.0
    return Flips(unit / 2 + sqrt(2 * log(final.numel())) * apart, float(crossed.sum()), relative)
