"""The error against float64 that a recipe predicts, so that a kernel's measured error can be judged.

Model: every rounding point adds an independent error of at most one rms rounding of the precision (for the worst
distribution of significands), relative to the tensor it enters; errors add in quadrature. On real kernels single points were
measured at 0.05 (h, on S) to 0.8 (h, on o; Vnew, on S) of that, so the prediction is high by 1.3 to 2.5 and still far under
any fault of order one.

fp32 sums add a random walk of fp32 roundings over the terms of a product (K) and of a chunk (C). The chunk form also takes
differences of a cumulative log decay g (natural log): a rounding of g is a relative error of |g| times that rounding in
the factor e^(g_i − g_j). Clamped exponents aren't in the model: a recipe whose diagonal is ``first`` or ``fused`` is wrong,
not noisy, where a sub-chunk without a lower bound decays by more than 2^126 (87 nat), and must exceed the prediction there.
Nor is rounding of everything toward zero, whose biases have one sign and add up; that of tf32 operands alone is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

from .activation import log_decay
from .chunk import on_products
from .contract import KdaInputs
from .precision import WORST_RMS, Precision, Rounding
from .recipe import Recipe

_CHUNK_STATE = (
    "qk_norm",
    "decay_cumsum",
    "beta",
    "intra_operand",
    "diagonal_operand",
    "kk_matrix",
    "inverse_merge",
    "inverse",
    "beta_v",
    "u",
    "beta_k",
    "w",
    "k_decayed",
    "state_operand",
    "v_new",
)
#: One value a token and head, too few to average: a short sequence may meet the largest error, √3 of the rms. In fp32 the
#: rounding isn't the value's only error, and the random walk below is larger.
_FEW = ("beta", "recurrent_beta")
#: What takes the place of some of them where decays multiply the products.
_ON_PRODUCTS = {"k_decayed": "v_decayed", "q_decayed": "qk_norm", "diagonal_operand": "intra_operand"}
_CHUNK_OUTPUT = ("qk_norm", "intra_operand", "diagonal_operand", "qk_matrix", "q_scaled", "q_decayed", "output")
_RECURRENT_STATE = ("recurrent_qk", "recurrent_beta")
_RECURRENT_OUTPUT = ("recurrent_qk", "output")


@dataclass(frozen=True)
class Predicted:
    """Relative error (Frobenius) of the final state and of o."""

    state: float
    output: float


def _precision(recipe: Recipe, point: str, bounded: bool, products: bool) -> Precision:
    """The precision in which a rounding point rounds, given the form that the decay brings about."""
    if products:
        point = _ON_PRODUCTS.get(point, point)
    unused = point == "diagonal_operand" and recipe.diagonal_form(bounded) == "direct"
    unused |= point == "q_scaled" and (products or recipe.scale_on == "output")
    if unused:
        return Precision.FP64 if recipe.activation is Precision.FP64 else Precision.FP32
    precision: Precision = getattr(recipe, point)
    return precision


def _quadrature(recipe: Recipe, points: tuple[str, ...], bounded: bool = False, products: bool = False) -> float:
    def error(point: str) -> float:
        precision = _precision(recipe, point, bounded, products)
        if precision in (Precision.FP32, Precision.FP64):
            return WORST_RMS[precision]
        # Uniform over a whole unit, not half of one to either side: 1/√3 where nearest has 1/√12.
        cut = 2 if recipe.rounding_of(precision) is Rounding.TOWARD_ZERO else 1
        return WORST_RMS[precision] * cut * (sqrt(3) if point in _FEW else 1)

    return sqrt(sum(error(point) ** 2 for point in points))


def _sums(recipe: Recipe, key_width: int, form: str) -> float:
    """fp32 random walk of the products: two over K and, in the chunk form, three over C."""
    terms = 2 * key_width + (3 * recipe.chunk if form == "chunk" else 0)
    unit = WORST_RMS[Precision.FP64 if recipe.activation is Precision.FP64 else Precision.FP32]
    return unit * sqrt(terms)


def predict(
    recipe: Recipe,
    form: str,
    key_width: int,
    largest_log_decay: float,
    bounded: bool = False,
    products: bool = False,
) -> Predicted:
    """Predict the error of a kernel of ``form`` under ``recipe``; ``predict_for`` takes the rest from inputs.

    Args:
        largest_log_decay: largest |cumulative natural log decay| inside a chunk.
        bounded: the decay has a lower bound. products: decays multiply finished products (one decay a head).
    """
    walk = _sums(recipe, key_width, form)
    if form == "recurrent":
        state = hypot(walk, _quadrature(recipe, _RECURRENT_STATE))
        return Predicted(state, hypot(state, _quadrature(recipe, _RECURRENT_OUTPUT)))
    unit = WORST_RMS[recipe.decay_cumsum]
    cancelled = largest_log_decay * unit
    state = sqrt(walk**2 + cancelled**2 + _quadrature(recipe, _CHUNK_STATE, bounded, products) ** 2)
    return Predicted(state, hypot(state, _quadrature(recipe, _CHUNK_OUTPUT, bounded, products)))


def predict_for(x: KdaInputs, recipe: Recipe, form: str) -> Predicted:
    """The prediction for a call: its width, its largest decay inside a chunk and the form of its decay."""
    return predict(recipe, form, x.k.shape[2], decay_span(x, recipe), x.lower_bound is not None, on_products(x, recipe))


def decay_span(x: KdaInputs, recipe: Recipe) -> float:
    """Largest |cumulative natural log decay| of a whole chunk, over chunks counted from the start, heads and channels."""
    g = log_decay(x.a, x.A_log, x.dt_bias, recipe, x.lower_bound)
    return max(
        float(-g[begin : min(begin + recipe.chunk, end)].sum(0).min())
        for start, end in zip(x.offsets, x.offsets[1:], strict=False)
        for begin in range(start, end, recipe.chunk)
    )
