"""Same enough? Two one-sided t tests over traces against a margin that was fixed before looking (docs/statistics.md).

Schuirmann 1987, "A comparison of the two one-sided tests procedure and the power approach", J. Pharmacokinet. Biopharm.
15: at level α the difference is inside (-m, m) exactly when the 1 - 2α interval lies inside. A ratio is tested without
dividing: mean(a) / mean(b) < r is mean(a - r·b) < 0, again a t test over traces, with Fieller's interval beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import special

from replaycheck.errors import InternalError

from .estimate import Estimated
from .intervals import fieller, mean_of
from .reduction import Values

__all__ = ["ALPHA", "Equivalence", "NoWorse", "Reading", "no_worse", "tost", "tost_ratio"]

ALPHA = 0.05
"""Of each one-sided test, by convention; the interval beside it is then one of 90 %."""


class Reading(StrEnum):
    """How an interval lies to the margin."""

    #: the interval is inside the margin
    EQUIVALENT = "equivalent"
    #: the interval is wholly outside
    DIFFERENT = "different"
    #: the interval excludes no difference and straddles the margin
    UNDECIDED = "different but small or undecided"
    #: the interval holds both no difference and the margin: too few traces
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Equivalence:
    """``estimate`` has the 1 - 2α interval; ``p`` is the larger of the two one-sided ones, None without two traces.

    ``room`` and ``spread`` are for power: distance of no difference from the upper margin, and standard deviation over
    traces, both in the unit that was tested: traces_for_tost(room, spread); for a ratio traces_for_no_worse.
    """

    estimate: Estimated
    low_margin: float
    high_margin: float
    alpha: float
    p: float | None
    reading: Reading
    room: float
    spread: float | None


@dataclass(frozen=True)
class NoWorse:
    """Worse means larger. ``p`` of the hypothesis that the value is at or above ``bound``; ``p_worse`` of the opposite.

    ``room`` and ``spread`` as in Equivalence: no_worse_power(n, room, spread), traces_for_no_worse(room, spread).
    """

    estimate: Estimated  # with the 1 - 2α interval
    bound: float
    alpha: float
    p: float | None
    p_worse: float | None
    room: float
    spread: float | None

    @property
    def holds(self) -> bool | None:
        """True: shown to be under the bound. False: shown to be above. None: too few traces to say."""
        if self.p is None or self.p_worse is None:
            return None
        return True if self.p <= self.alpha else False if self.p_worse <= self.alpha else None


def tost(values: Values, margin: float, alpha: float = ALPHA) -> Equivalence:
    """Is the mean of one difference a trace [n] inside (-margin, margin)? ``margin`` is in the unit of ``values``.
    Raises InternalError for one that isn't a positive number.

    >>> tost(np.array([0.1, -0.2, 0.0, 0.1, -0.1, 0.2]), margin=0.5).reading
    <Reading.EQUIVALENT: 'equivalent'>
    """
    _positive("margin", margin)
    found = mean_of(values, 1 - 2 * alpha)
    p = _larger(_p_below(values - margin), _p_below(-values - margin))
    return Equivalence(found, -margin, margin, alpha, p, _read(found, -margin, 0.0, margin), margin, _spread(values))


def tost_ratio(values: Values, floor: Values, factor: float, alpha: float = ALPHA) -> Equivalence:
    """Is mean(values) / mean(floor), paired by trace [n], inside (1 / factor, factor)? ``floor`` is at least 0."""
    _above_one(factor)
    found = fieller(values, floor, 1 - 2 * alpha)
    p = _larger(_p_below(values - factor * floor), _p_below(floor / factor - values))
    reading = _read(found, 1 / factor, 1.0, factor)
    # What a ratio of 1 has to stay away from: the upper margin, which is the one that gates decide by.
    room, spread = _mean(floor) * (factor - 1), _spread(values - factor * floor)
    return Equivalence(found, 1 / factor, factor, alpha, p, reading, room, spread)


def no_worse(values: Values, bound: float, alpha: float = ALPHA) -> NoWorse:
    """Is the mean of one number a trace [n] under ``bound``? For a baseline: values are new - old, bound what is allowed."""
    found = mean_of(values, 1 - 2 * alpha)
    return NoWorse(found, bound, alpha, _p_below(values - bound), _p_below(bound - values), bound, _spread(values))


def _p_below(values: Values) -> float | None:
    """p of "the mean is 0 or more" against "it is below 0"; 0 or 1 where all values are the same, None for n < 2."""
    if len(values) < 2:
        return None
    if (values == values[0]).all():
        return 0.0 if values[0] < 0 else 1.0
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(special.stdtr(len(values) - 1, values.mean() / error))


def _read(found: Estimated, low: float, none: float, high: float) -> Reading:
    """Where the interval lies to ``low`` … ``high``; ``none`` is the value of no difference."""
    if found.low is None or found.high is None:
        return Reading.INCONCLUSIVE
    if low < found.low and found.high < high:
        return Reading.EQUIVALENT
    if found.high <= low or found.low >= high:
        return Reading.DIFFERENT
    return Reading.INCONCLUSIVE if found.low <= none <= found.high else Reading.UNDECIDED


def _larger(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else max(a, b)


def _mean(values: Values) -> float:
    return float(values.mean()) if len(values) else 0.0


def _spread(values: Values) -> float | None:
    return float(values.std(ddof=1)) if len(values) > 1 else None


def _positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise InternalError(
            f"a {name} of {value} was given; it must be a positive number that was fixed before looking"
        )


def _above_one(factor: float) -> None:
    if not (np.isfinite(factor) and factor > 1):
        raise InternalError(f"a factor of {factor} was given; it must be above 1, the ratio of no difference")
