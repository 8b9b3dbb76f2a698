"""The error against float64 that a recipe predicts, so that a kernel's measured error can be judged.

Model: every rounding point adds an independent error of at most one rms rounding of the precision (for the worst
distribution of significands), relative to the tensor it enters; errors add in quadrature. On real kernels single points were
measured at 0.05 (h, on S) to 0.8 (h, on o; Vnew, on S) of that, so the prediction is high by 1.3 to 2.5 and still far under
any fault of order one.

fp32 sums add a random walk of fp32 roundings over the terms of a product (K) and of a chunk (C). The chunk form also takes
differences of a cumulative log decay g (natural log): a rounding of g is a relative error of |g| times that rounding in
the factor e^(g_i − g_j).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

from .precision import WORST_RMS, Precision
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
_CHUNK_OUTPUT = ("qk_norm", "intra_operand", "diagonal_operand", "qk_matrix", "q_scaled", "q_decayed", "output")
_RECURRENT_STATE = ("recurrent_qk", "recurrent_beta")
_RECURRENT_OUTPUT = ("recurrent_qk", "output")


@dataclass(frozen=True)
class Predicted:
    """Relative error (Frobenius) of the final state and of o."""

    state: float
    output: float


def _quadrature(recipe: Recipe, points: tuple[str, ...]) -> float:
    return sqrt(sum(WORST_RMS[getattr(recipe, point)] ** 2 for point in points))


def _sums(recipe: Recipe, key_width: int, form: str) -> float:
    """fp32 random walk of the products: two over K and, in the chunk form, three over C."""
    terms = 2 * key_width + (3 * recipe.chunk if form == "chunk" else 0)
    unit = WORST_RMS[Precision.FP64 if recipe.activation is Precision.FP64 else Precision.FP32]
    return unit * sqrt(terms)


def predict(recipe: Recipe, form: str, key_width: int, largest_log_decay: float) -> Predicted:
    """Predict the error of a kernel of ``form`` under ``recipe``.

    Args:
        largest_log_decay: largest |cumulative natural log decay| inside a chunk.
    """
    walk = _sums(recipe, key_width, form)
    if form == "recurrent":
        state = hypot(walk, _quadrature(recipe, _RECURRENT_STATE))
        return Predicted(state, hypot(state, _quadrature(recipe, _RECURRENT_OUTPUT)))
    unit = WORST_RMS[recipe.decay_cumsum]
    cancelled = largest_log_decay * unit
    state = sqrt(walk**2 + cancelled**2 + _quadrature(recipe, _CHUNK_STATE) ** 2)
    return Predicted(state, hypot(state, _quadrature(recipe, _CHUNK_OUTPUT)))
