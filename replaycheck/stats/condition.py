"""Is a large difference the position's fault or the state's? (docs/statistics.md, Where it begins)

The condition of a position is its |dlogp| per unit of relative perturbation of the state, from a few random perturbations
of known size. What an error of relative size r does there is then a draw from the same law, and d / (condition·r) is
Student's t with as many degrees of freedom as draws: the condition is the root mean square of that many normal numbers.
A large difference that t explains belongs to an ill-conditioned token; one that it doesn't is suspicious.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from replaycheck.errors import InternalError

from .reduction import Values

__all__ = ["DRAWS", "Kind", "classify", "condition_of", "p_explained"]

DRAWS = 8
"""Perturbations of a position: the condition is then known to 25 % (1 / √(2·8))."""
ALPHA = 0.05
"""Chance that any ordinary large difference of a run is called suspicious (Bonferroni over the large ones)."""


class Kind(StrEnum):
    """What a difference at a position is."""

    #: not large: nothing to explain
    SMALL = "small"
    #: large, and an error of that size in the state explains it
    ILL_CONDITIONED = "ill-conditioned"
    #: large, and the state's error doesn't explain it
    SUSPICIOUS = "suspicious"


def condition_of(dlogp: Values, size: Values) -> Values:
    """[positions] nat per unit of relative perturbation: root mean square over draws of dlogp / size.

    ``dlogp``: [draws, positions], change of log-probability under each perturbation. ``size``: [draws], or
    [draws, positions], relative Frobenius norm of the perturbation; positive.
    """
    sizes = size[:, None] if size.ndim == 1 else size
    if dlogp.ndim != 2 or len(dlogp) != len(sizes) or not (sizes > 0).all():
        raise InternalError("each draw needs one row of dlogp and a positive size of its perturbation")
    return np.asarray(np.sqrt(np.mean(np.square(dlogp / sizes), axis=0)), np.float64)


def p_explained(d: Values, condition: Values, error: float, draws: int = DRAWS) -> Values:
    """[n] two-sided p of ``d`` (nat) at positions of that ``condition`` under a relative state error of size ``error``.

    Where the condition is 0 the state doesn't matter: 1 for d = 0 and 0 for anything else.
    """
    scale = condition * error
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(d == 0, 0.0, np.abs(d) / scale)
    return np.asarray(2 * stats.t.sf(t, draws), np.float64)


def classify(
    d: Values, condition: Values, error: float, large: float, draws: int = DRAWS, alpha: float = ALPHA
) -> NDArray[np.str_]:
    """[n] a Kind each. ``large``: the |d| from which a difference needs an explanation (a quantile of the floor);
    ``error``: relative state error that was measured, or F_rnd.
    """
    is_large = np.abs(d) > large
    explained = p_explained(d, condition, error, draws) > alpha / max(int(is_large.sum()), 1)
    kinds = np.where(explained, Kind.ILL_CONDITIONED.value, Kind.SUSPICIOUS.value)
    return np.where(is_large, kinds, Kind.SMALL.value)
