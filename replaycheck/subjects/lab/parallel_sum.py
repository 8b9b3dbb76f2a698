"""Row-parallel products: each rank multiplies its part of the inner axis, and the parts are added in one fixed order.

A network's pass stops at each such product (``RowProduct``) and goes on with the sum. So one pass, the passes of several
ranks in one process and a rank among real processes run the same code; they differ in who makes the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from replaycheck_kernels.precision import Precision, round_to

from .layers import linear

Output = TypeVar("Output")


@dataclass(frozen=True)
class RowProduct:
    """x · weightᵀ over the features that a rank has: x [N, features], weight [hidden, features]."""

    x: Tensor
    weight: Tensor


Pass = Generator[RowProduct, Tensor, Output]
"""A forward pass that yields its row-parallel products and is sent their sums [N, hidden], rounded."""

Total = Callable[[Sequence[RowProduct]], Tensor]


def lockstep(passes: Sequence[Pass[Output]], total: Total) -> list[Output]:
    """Run the ranks' passes from product to product, in the order of the ranks; all are sent the same sum."""
    outputs: list[Output] = []
    sums: Tensor | None = None
    while not outputs:
        parts = []
        for each in passes:
            try:
                parts.append(next(each) if sums is None else each.send(sums))
            except StopIteration as end:
                outputs.append(end.value)
        sums = total(parts) if parts else None
    return outputs


def partial_product(part: RowProduct, activation: Precision) -> Tensor:
    """A rank's part of the sum, not rounded: [N, hidden] fp32 (fp64 if activations are)."""
    return linear(part.x, part.weight, Precision.FP64 if activation is Precision.FP64 else Precision.FP32)


def in_order(parts: Sequence[Tensor], order: Sequence[int], activation: Precision) -> Tensor:
    """The ranks' parts [N, hidden] added in the order of the plan and rounded once.

    An all-reduce adds in an order of its own, by message size and topology; ``association_bound`` covers every order.
    """
    total = parts[order[0]]
    for rank in order[1:]:
        total = total + parts[rank]
    return round_to(total, activation)


def association_bound(x: Tensor, weight: Tensor, degree: int) -> Tensor:
    """By how much a row-parallel product over ``degree`` ranks may differ from the whole one, before both are rounded.

    Both sums approximate Σ x_d w_d. In a sum of D products each term goes through at most D roundings, its own product's
    included, whatever the order: the error is at most γ(D)·Σ|x_d w_d| with γ(n) = n u / (1 − n u) (Higham, Accuracy and
    Stability, 2nd ed., §3.1). Over ranks a term meets D / degree roundings in its part and degree − 1 after it. The
    difference is at most the sum of both errors. u is 2^-24 for fp32; on a GPU 2^-23, since tensor cores cut sums off
    (Fasi and others 2021).

    Args:
        x: [N, D]. weight: [hidden, D].

    Returns:
        [N, hidden] fp64.
    """
    features, eps = x.shape[1], torch.finfo(x.dtype).eps
    unit = eps / 2 if x.device.type == "cpu" else eps
    magnitude = x.double().abs() @ weight.double().abs().T
    return (_gamma(features, unit) + _gamma(features // degree + degree - 1, unit)) * magnitude


def _gamma(roundings: int, unit: float) -> float:
    return roundings * unit / (1 - roundings * unit)


@dataclass(frozen=True)
class SumDifference:
    """One row-parallel product over ranks against the whole one.

    Attributes:
        of_bound: the largest difference before rounding, as a share of the bound; above 1 something else is wrong.
        before, after: share of the elements that differ before and after the rounding to the activations' precision.
    """

    of_bound: float
    before: float
    after: float


def sum_difference(
    whole: RowProduct, parts: Sequence[RowProduct], order: Sequence[int], activation: Precision
) -> SumDifference:
    """Compare the sum of the ranks' parts with the whole product."""
    one = partial_product(whole, activation)
    wide = Precision.FP64 if activation is Precision.FP64 else Precision.FP32
    many = in_order([partial_product(part, activation) for part in parts], order, wide)
    bound = association_bound(whole.x, whole.weight, len(parts))
    off = (one.double() - many.double()).abs()
    # Where the bound is 0 every term is 0, and any difference is too much.
    share = torch.where(off == 0, torch.zeros_like(off), off / bound)
    rounded = round_to(one, activation) != round_to(many, activation)
    return SumDifference(float(share.max()), float((off != 0).double().mean()), float(rounded.double().mean()))
