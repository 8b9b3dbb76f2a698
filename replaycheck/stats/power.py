"""What n traces can show: power of the equivalence tests over traces, and how many traces a power needs.

For values with standard deviation s the sample's is s·u with (n - 1)·u² ~ χ² of n - 1; given u the tests are a normal
probability, so power is one integral over u (Phillips 1990, J. Pharmacokinet. Biopharm. 18; Owen's Q by quadrature).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import stats

from replaycheck.errors import InternalError

from .equivalence import ALPHA

__all__ = ["MOST_TRACES", "POWER", "no_worse_power", "tost_power", "traces_for_no_worse", "traces_for_tost"]

POWER = 0.8
"""By convention: one plan in five may end inconclusive though nothing is wrong."""

MOST_TRACES = 1_000_000
"""Plans of more traces are called out of reach."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
"""Quadrature over probability levels of χ²; 200 nodes agree with 4,000 to 1e-5 at 2 traces and to 1e-6 from 32 on."""


def tost_power(n: int, margin: float, spread: float, alpha: float = ALPHA, difference: float = 0.0) -> float:
    """Probability that ``n`` traces with standard deviation ``spread`` are found equivalent.

    ``difference`` is the true mean. At a margin of half a spread: .04 for 8 traces, .74 for 32, .98 for 64.
    """
    if n < 2:
        return 0.0
    if spread == 0:
        return float(abs(difference) < margin)
    t, root = stats.t.ppf(1 - alpha, n - 1), np.sqrt(n) / spread
    levels = (_NODES + 1) / 2
    u = np.sqrt(stats.chi2.ppf(levels, n - 1) / (n - 1))
    inside = stats.norm.cdf((margin - difference) * root - t * u) - stats.norm.cdf(t * u - (margin + difference) * root)
    return float((_WEIGHTS / 2) @ np.maximum(inside, 0))


def no_worse_power(n: int, bound: float, spread: float, alpha: float = ALPHA, value: float = 0.0) -> float:
    """Probability that ``n`` traces with true mean ``value`` are shown to be under ``bound`` (a noncentral t)."""
    if n < 2:
        return 0.0
    if spread == 0:
        return float(value < bound)
    shift = (bound - value) * np.sqrt(n) / spread
    return float(stats.nct.sf(stats.t.ppf(1 - alpha, n - 1), n - 1, shift))


def traces_for_tost(
    margin: float, spread: float, power: float = POWER, alpha: float = ALPHA, difference: float = 0.0
) -> int | None:
    """Fewest traces at which ``tost_power`` reaches ``power``; None beyond MOST_TRACES or for a difference not inside.
    Raises InternalError for a power outside 0 … 1.

    >>> traces_for_tost(margin=0.5, spread=1.0)
    36
    """
    if abs(difference) >= margin:
        return None
    return _fewest(partial(tost_power, margin=margin, spread=spread, alpha=alpha, difference=difference), power)


def traces_for_no_worse(
    bound: float, spread: float, power: float = POWER, alpha: float = ALPHA, value: float = 0.0
) -> int | None:
    """Fewest traces at which ``no_worse_power`` reaches ``power``; None beyond MOST_TRACES or if value isn't under it."""
    if value >= bound:
        return None
    return _fewest(partial(no_worse_power, bound=bound, spread=spread, alpha=alpha, value=value), power)


def _fewest(power_of: Callable[[int], float], power: float) -> int | None:
    """Bisection; power grows with n."""
    if not 0 < power < 1:
        raise InternalError(f"a power of {power} was asked for; it must lie between 0 and 1")
    low, high = 1, 2
    while power_of(high) < power:
        low, high = high, 2 * high
        if high > MOST_TRACES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_of(middle) >= power else (middle, high)
    return high
