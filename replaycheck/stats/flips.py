"""Flips of the top-1 token, weighed by the margin that they had to cross (docs/statistics.md, Flips).

Noise of spread s on each logit moves the margin g between two of them by s·√2, so it flips with probability
Φ(-g / (s·√2)). Above k·s with k = 6 that is Φ(-4.24) = 1.1e-5 a position at the very edge and falls steeply beyond. A flip
of an exact tie is no flip of the model but of the tie rule, and one under another expert choice of a router has no
spread at all (a change of 1.6e-5 can become 20 nat); both are counted apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from replaycheck.errors import InternalError

from .reduction import Values

__all__ = ["SPREADS", "FlipCount", "count_flips"]

Mask = NDArray[np.bool_]

SPREADS = 6.0
"""k: flips above k·s gate, those below inform. See the module's text for the chance that noise crosses it."""


@dataclass(frozen=True)
class FlipCount:
    """``ties`` and ``router`` are in none of the other counts, nor are their positions in ``positions``."""

    positions: int
    flips: int
    above: int  # flips whose margin exceeds k·s
    bound: float  # k·s, in the unit of the margins
    expected: float  # flips that noise of spread s makes of these margins
    expected_above: float
    p: float  # of so many flips or more under noise; an upper bound, positions taken as independent
    p_above: float
    ties: int
    router: int
    largest_margin: float | None  # among the flips


def count_flips(
    margin: Values, flipped: Mask, spread: float, k: float = SPREADS, router: Mask | None = None
) -> FlipCount:
    """Flips of positions [n] with the reference's ``margin`` (top1 - top2, at least 0) under noise of ``spread``.

    ``router`` [n] marks positions where an expert choice differs. ``spread`` 0 says that nothing is noise: every flip
    with a margin is above. p values describe one trace set; gates take ``above``, and votes over traces (signs.mcnemar).
    """
    if not (len(margin) == len(flipped) and (margin >= 0).all() and spread >= 0):
        raise InternalError("margins and the spread must be at least 0, with one flag for each margin")
    routed = np.zeros(len(margin), np.bool_) if router is None else router
    tied = (margin == 0) & ~routed
    kept = ~tied & ~routed
    g, flip, bound = margin[kept], flipped[kept], k * spread
    chance = _chance(g, spread)
    above = g > bound
    return FlipCount(
        positions=len(g),
        flips=int(flip.sum()),
        above=int((flip & above).sum()),
        bound=bound,
        expected=float(chance.sum()),
        expected_above=float(chance[above].sum()),
        p=_p(int(flip.sum()), chance),
        p_above=_p(int((flip & above).sum()), chance[above]),
        ties=int((flipped & tied).sum()),
        router=int((flipped & routed).sum()),
        largest_margin=float(g[flip].max()) if flip.any() else None,
    )


def _chance(margin: Values, spread: float) -> Values:
    if spread == 0:
        return np.zeros(len(margin))
    return np.asarray(stats.norm.sf(margin / (spread * np.sqrt(2))), np.float64)


def _p(events: int, chance: Values) -> float:
    """Upper bound of the probability of ``events`` or more among independent ones with these chances [n].

    The tail of a Poisson variable of the same mean bounds it as soon as ``events`` exceed the mean by one (Hoeffding 1956,
    Ann. Math. Stat. 27; Anderson & Samuels 1967). Below that it may be short by what both laws can differ (Barbour & Hall
    1984, Math. Proc. Camb. Phil. Soc. 95): (1 - e^-λ) / λ · Σ chance².
    """
    mean = float(chance.sum())
    tail = float(stats.poisson.sf(events - 1, mean))
    if events >= mean + 1:
        return tail
    return min(1.0, tail - float(np.expm1(-mean)) / mean * float(np.square(chance).sum())) if events else 1.0
