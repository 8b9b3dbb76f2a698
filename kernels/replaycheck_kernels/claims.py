"""Does a kernel compute what its recipe claims? What it exposes, intermediate by intermediate, against the emulator.

For each hypothesis (how tensor cores take fp32 operands as tf32, which product of a block merge comes first) the emulator
computes every intermediate. A reduced one is compared by the share of its elements that are more than one unit in the last
place of its declared precision away; one in fp32, where every other order of sums moves most elements by some units, by its
relative difference. Both are held against the same number between the emulator and itself evaluated in another way
(``reordered``), which follows the flips of early roundings into everything that is computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Literal

import torch
from torch import Tensor

from .contract import KdaInputs
from .intermediates import NAMES, compare_intermediate, declared, intermediates
from .precision import WORST_RMS, Precision, Rounding, round_to
from .recipe import TF32, Recipe
from .recurrent import RECURRENT_TORCH
from .reordered import FACTOR, WAYS, evaluated

MergeFirst = Literal["left", "right"]

_WIDE = (Precision.FP32, Precision.FP64)
_SIGMAS = 3.0
_ELEMENTWISE = 8 * WORST_RMS[Precision.FP32]
"""The least that two fp32 evaluations of decay and beta may be apart: 3 rms roundings of A = exp(A_log), which all tokens of
a head share and one draw may understate, 2 of the softplus or sigmoid, 1 of its product with A, a few of the sums."""


@dataclass(frozen=True)
class Compared:
    """One call of a kernel: what it exposed, by ``intermediates.NAMES`` and in its layouts, its arguments and its claim."""

    exposed: Mapping[str, Tensor]
    inputs: KdaInputs
    initial: Tensor
    recipe: Recipe
    form: str = "chunk"


@dataclass(frozen=True)
class Hypothesis:
    """A recipe and the open choices that it settles, in words; "" where there was nothing to choose."""

    recipe: Recipe
    words: str


@dataclass(frozen=True)
class Departure:
    """One intermediate.

    Attributes:
        found, allowed: share of elements beyond 1 ulp, or the relative difference where ``wide``.
        off_grid: share of elements that aren't values of the declared precision, where it is a reduced one.
        moved, predicted: share of elements that differ at all, for information: most are 1 ulp, flipped roundings.
    """

    name: str
    found: float
    allowed: float
    wide: bool
    off_grid: float = 0.0
    moved: float = 0.0
    predicted: float = 0.0

    @property
    def departs(self) -> bool:
        return self.found > self.allowed or self.off_grid > 0

    def text(self) -> str:
        if self.off_grid:
            return f"{self.name}: {self.off_grid:.2g} of its elements aren't in the precision that the recipe declares"
        what = "relative difference" if self.wide else "share beyond 1 ulp"
        return f"{self.name}: {what} {self.found:.2g}, another order of fp32 sums predicts {self.allowed:.2g} or less"


def hypotheses(recipe: Recipe, form: str) -> list[Hypothesis]:
    """The recipe as declared first, then with other choices that its author couldn't read off the source."""
    if form != "chunk":
        return [Hypothesis(recipe, "")]
    orders: tuple[MergeFirst, ...] = ("left", "right") if recipe.merge_first == "left" else ("right", "left")
    return [
        Hypothesis(replace(chosen, merge_first=order), ", ".join(filter(None, (how, f"merges from the {order}"))))
        for order in orders
        for how, chosen in _tf32(recipe)
    ]


def _tf32(recipe: Recipe) -> list[tuple[str, Recipe]]:
    """What a product of fp32 operands may do with them: round, drop low bits, or, as Triton's interpreter, neither."""
    points = [name for name, precision in recipe.precisions().items() if precision is TF32]
    if not points:
        return [("", recipe)]
    cut, rounded = (replace(recipe, tf32_rounding=how) for how in (Rounding.TOWARD_ZERO, Rounding.NEAREST))
    tried = [("tf32 operands cut", cut), ("tf32 operands rounded", rounded)]
    if recipe.rounding_of(TF32) is Rounding.NEAREST:
        tried.reverse()
    wide: Any = dict.fromkeys(points, Precision.FP32)
    return [*tried, ("fp32 in place of tf32", replace(recipe, **wide))]


def computed(x: KdaInputs, initial: Tensor, recipe: Recipe, form: str) -> dict[str, Tensor]:
    """What the emulator of a form computes from states [R, HV, V, K], in order; recurrent: outputs and final states."""
    if form == "chunk":
        return intermediates(x, initial, recipe)
    found = RECURRENT_TORCH(x, initial, (), recipe)
    return {"o": found.o, "final": found.final}


def departures(compared: Compared, choice: str = "") -> list[Departure]:
    """Every exposed intermediate, in the order of computation.

    Args:
        choice: the words of a hypothesis; "" takes the recipe as it is.
    """
    recipe = _chosen(compared, choice)
    x, initial, form = compared.inputs, compared.initial, compared.form
    base = computed(x, initial, recipe, form)
    others = [_otherwise(way, x, initial, recipe, form) for way in WAYS]
    return [
        _departure(name, compared.exposed[name], base[name], [other[name] for other in others], x, recipe)
        for name in NAMES
        if name in compared.exposed
    ]


def fits(cases: Sequence[Compared], form: str) -> dict[str, float]:
    """For each hypothesis the share of elements of reduced intermediates that differ, a mean over them and the cases."""
    words = [each.words for each in hypotheses(cases[0].recipe, form)]
    return {each: sum(_moved(case, each) for case in cases) / len(cases) for each in words}


def _moved(case: Compared, choice: str) -> float:
    recipe = _chosen(case, choice)
    base, shares = computed(case.inputs, case.initial, recipe, case.form), []
    for name in (each for each in NAMES if each in case.exposed and declared(each, case.inputs, recipe) not in _WIDE):
        a, b = (_kept(name, x.reshape(base[name].shape), case.inputs, recipe) for x in (case.exposed[name], base[name]))
        shares.append(_share(a, b))
    return sum(shares) / len(shares) if shares else 0.0


def _chosen(case: Compared, choice: str) -> Recipe:
    return next(each.recipe for each in hypotheses(case.recipe, case.form) if choice in ("", each.words))


def _otherwise(way: str, x: KdaInputs, initial: Tensor, recipe: Recipe, form: str) -> dict[str, Tensor]:
    with evaluated(way):
        return computed(x, initial, recipe, form)


def _departure(
    name: str, exposed: Tensor, base: Tensor, others: Sequence[Tensor], x: KdaInputs, recipe: Recipe
) -> Departure:
    precision, exposed = declared(name, x, recipe), exposed.reshape(base.shape)
    exposed, base, *others = (_kept(name, each, x, recipe) for each in (exposed, base, *others))
    if precision in _WIDE:
        predicted = max(_relative(other, base) for other in others)
        return Departure(name, _relative(exposed, base), max(FACTOR * predicted, _ELEMENTWISE), True)
    predicted = max(compare_intermediate(other, base, precision).share for other in others)
    nan = bool((exposed.isnan() & ~base.isnan()).any())  # no rounding makes one, so a single one is a departure
    found = 1.0 if nan else compare_intermediate(exposed, base, precision).share
    return Departure(
        name,
        found,
        allowed_share(predicted, base.numel(), base.shape[-1]),
        False,
        _share(exposed.float(), round_to(exposed.float(), precision)),
        _share(exposed, base),
        max(_share(other, base) for other in others),
    )


def _share(a: Tensor, b: Tensor) -> float:
    """Of elements that differ; NaN equals NaN."""
    return float(((a != b) & ~(a.isnan() & b.isnan())).double().mean())


def allowed_share(predicted: float, elements: int, cluster: int) -> float:
    """``FACTOR`` times what is predicted, and three standard deviations of a count.

    Differences come in rows: a flipped element of the inverse moves a row of w. So a row of ``cluster`` counts as one draw,
    and one row may always differ.
    """
    row = cluster / elements
    return min(1.0, FACTOR * predicted + _SIGMAS * sqrt(max(predicted, row) * row))


def _relative(found: Tensor, expected: Tensor) -> float:
    """Frobenius; infinite where one is finite and the other isn't."""
    a, b = found.double(), expected.double()
    same = (a == b) | (a.isnan() & b.isnan())
    if not bool((same | (a.isfinite() & b.isfinite())).all()):
        return torch.inf
    size = float(torch.where(b.isfinite(), b, 0.0).norm())
    off = float(torch.where(same, 0.0, a - b).norm())
    return off / size if size else (torch.inf if off else 0.0)


def _kept(name: str, matrix: Tensor, x: KdaInputs, recipe: Recipe) -> Tensor:
    """Chunks' matrices [N, HV, C] with zeros right of the diagonal, where kernels leave what was in memory."""
    if name not in ("qk", "inverse", "kk"):
        return matrix
    place = torch.cat([torch.arange(length) % recipe.chunk for length in x.lengths()]).to(matrix.device)
    keep = torch.arange(recipe.chunk, device=matrix.device)[None] <= place[:, None]
    return torch.where(keep[:, None], matrix.to(torch.float32), 0.0)


def first_departure(found: Sequence[Departure]) -> Departure | None:
    """The first rounding point at which a kernel departs from its claim; None if none does."""
    return next((each for each in found if each.departs), None)
