"""Intervals that a gate or a report prints beside a number. Numbers and their evidence, no verdicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from replaycheck.errors import InternalError

from .estimate import Estimated

__all__ = ["CONFIDENCE", "Interval", "cluster_t", "fieller", "mean_of", "proportion", "rate", "upper_bound"]

CONFIDENCE = 0.95
"""Of every interval, by convention; gates of equivalence use their own."""


class Interval(NamedTuple):
    """Both ends, in the unit of the number that they belong to."""

    low: float
    high: float


def cluster_t(means: NDArray[np.float64], confidence: float = CONFIDENCE) -> Interval | None:
    """Student's t interval of the mean of cluster means [n]; None for fewer than two clusters.

    Under about 32 clusters with heavy tails its coverage is below the nominal one: .83 at 8, .88 at 32 (docs/statistics.md).
    """
    n = len(means)
    if n < 2:
        return None
    half = special.stdtrit(n - 1, (1 + confidence) / 2) * means.std(ddof=1) / np.sqrt(n)
    return Interval(float(means.mean() - half), float(means.mean() + half))


def mean_of(values: NDArray[np.float64], confidence: float = CONFIDENCE) -> Estimated:
    """Mean of one number a cluster [n] with Student's t interval, which n < 2 doesn't have; None for n = 0."""
    if not len(values):
        return Estimated(None, 0, "mean: no value")
    low, high = cluster_t(values, confidence) or (None, None)
    return Estimated(float(values.mean()), len(values), f"cluster-t, {confidence:.0%}", low, high)


def fieller(
    numerator: NDArray[np.float64], denominator: NDArray[np.float64], confidence: float = CONFIDENCE
) -> Estimated:
    """Mean of ``numerator`` over mean of ``denominator``, paired by cluster [n], with Fieller's interval.

    It holds the r at which Student's t doesn't reject mean(numerator - r·denominator) = 0, so that tests of a ratio and
    their interval say the same (Fieller 1954, J. R. Stat. Soc. B 16). Where the denominator isn't clearly above 0 that
    set has no end, and both sides are None.

    Raises:
        InternalError: the arrays differ in length.
    """
    n = len(numerator)
    if n != len(denominator):
        raise InternalError(f"{n} numerators and {len(denominator)} denominators can't be paired by cluster")
    if n == 0 or denominator.mean() == 0:
        return Estimated(None, n, "ratio of means: the denominator is 0")
    a, b = float(numerator.mean()), float(denominator.mean())
    method = f"ratio of means, Fieller's t, {confidence:.0%}"
    if n < 2:
        return Estimated(a / b, n, method)
    (aa, ab), (_, bb) = np.cov(numerator, denominator) * special.stdtrit(n - 1, (1 + confidence) / 2) ** 2 / n
    # (a - r·b)² = aa - 2·r·ab + r²·bb, a quadratic in r.
    square, middle, rest = b * b - bb, a * b - ab, a * a - aa
    inside = max(middle * middle - square * rest, 0.0)
    if square <= 0:
        return Estimated(a / b, n, method)
    low, high = (float((middle + side * np.sqrt(inside)) / square) for side in (-1, 1))
    return Estimated(a / b, n, method, low, high)


def upper_bound(events: int, n: int, confidence: float = CONFIDENCE) -> float:
    """One-sided exact (Clopper-Pearson) upper bound of a proportion: the p at which ``events`` or fewer have
    probability 1 - confidence. With no event it is 1 - (1 - confidence)^(1/n), about 3/n at 95 %: the rule of three.
    Raises InternalError for events that aren't among 0 … n, or n = 0.

    >>> round(upper_bound(0, 10), 4)
    0.2589
    """
    _check(events, n)
    return 1.0 if events == n else float(stats.beta.ppf(confidence, events + 1, n - events))


def proportion(events: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Exact (Clopper-Pearson) interval of a proportion; one-sided from 0 where there is no event.
    Raises InternalError for events that aren't among 0 … n, or n = 0.

    >>> [round(side, 3) for side in proportion(6, 100)]  # six flakes in a hundred runs
    [0.022, 0.126]
    """
    _check(events, n)
    if events == 0:
        return Interval(0.0, upper_bound(0, n, confidence))
    outside = (1 - confidence) / 2
    low = float(stats.beta.ppf(outside, events, n - events + 1))
    return Interval(low, upper_bound(events, n, 1 - outside))


def rate(events: int, n: int, confidence: float = CONFIDENCE) -> Estimated:
    """Share of events with its exact interval: exact-zero mode counts mismatches and prints the bound of none in n.

    Raises:
        InternalError: events that aren't among 0 … n, or n = 0.
    """
    low, high = proportion(events, n, confidence)
    side = "one-sided" if events == 0 else "two-sided"
    return Estimated(events / n, n, f"exact binomial, {confidence:.0%} {side}", low, high)


def _check(events: int, n: int) -> None:
    if not 0 <= events <= n or n == 0:
        raise InternalError(f"{events} events of {n} isn't a proportion; n must be positive and no less than events")
