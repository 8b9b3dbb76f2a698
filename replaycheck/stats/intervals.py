"""Intervals that a gate or a report prints beside a number. Numbers and their evidence, no verdicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from replaycheck.errors import InternalError

__all__ = ["CONFIDENCE", "Interval", "cluster_t", "proportion", "upper_bound"]

CONFIDENCE = 0.95
"""Of every interval, by convention; gates of equivalence use their own."""


class Interval(NamedTuple):
    low: float
    high: float


def cluster_t(means: NDArray[np.float64], confidence: float = CONFIDENCE) -> Interval | None:
    """Student's t interval of the mean of cluster means [n]; None for fewer than two clusters.

    Under about 32 clusters with heavy tails its coverage is below the nominal one: .85 at 8, .91 at 32 (C.0).
    """
    n = len(means)
    if n < 2:
        return None
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * means.std(ddof=1) / np.sqrt(n)
    return Interval(float(means.mean() - half), float(means.mean() + half))


def upper_bound(events: int, n: int, confidence: float = CONFIDENCE) -> float:
    """One-sided exact (Clopper-Pearson) upper bound of a proportion: the p at which ``events`` or fewer have
    probability 1 - confidence. With no event it is 1 - (1 - confidence)^(1/n), about 3/n at 95 %: the rule of three.

    >>> round(upper_bound(0, 10), 4)
    0.2589
    """
    _check(events, n)
    return 1.0 if events == n else float(stats.beta.ppf(confidence, events + 1, n - events))


def proportion(events: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Exact (Clopper-Pearson) interval of a proportion; one-sided from 0 where there is no event.

    >>> [round(side, 3) for side in proportion(6, 100)]  # six flakes in a hundred runs (C.2)
    [0.022, 0.126]
    """
    _check(events, n)
    if events == 0:
        return Interval(0.0, upper_bound(0, n, confidence))
    outside = (1 - confidence) / 2
    low = float(stats.beta.ppf(outside, events, n - events + 1))
    return Interval(low, upper_bound(events, n, 1 - outside))


def _check(events: int, n: int) -> None:
    if not 0 <= events <= n or n == 0:
        raise InternalError(f"{events} events of {n} isn't a proportion; n must be positive and no less than events")
