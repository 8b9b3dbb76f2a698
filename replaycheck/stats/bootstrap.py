"""Intervals by resampling clusters, for pooled quantiles and the like, where Student's t has nothing to stand on.

A statistic is a function of how often each cluster was drawn: counts [resamples, clusters] in, [resamples] out. The data
give one row of ones; the jackknife leaves one cluster out of each row. BCa (Efron 1987, "Better bootstrap confidence
intervals", J. Am. Stat. Assoc. 82) corrects bias and skew; where it isn't defined the percentiles are taken, and where
every resample gives the same number, that number is the answer and no interval is claimed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from replaycheck.errors import InternalError

from .estimate import Estimated
from .intervals import CONFIDENCE
from .reduction import Codes, Values
from .selection import rank_of

__all__ = ["RESAMPLES", "Counts", "cluster_bootstrap", "pooled_quantile"]

Counts = NDArray[np.float64]
"""[resamples, clusters]: how often each cluster was drawn."""

RESAMPLES = 2000
"""The 2.5 % point is then the 50th of the sorted draws; its Monte Carlo error is 1/7 of a tail (50 ± √50)."""

LEFT_OUT = 1000
"""Groups of the jackknife at most; the skew they correct for falls with the root of the number of clusters."""

_BATCH = 1 << 22
"""Elements of a batch of counts: 32 MiB."""


def pooled_quantile(
    values: Values, cluster: Codes, level: float, confidence: float = CONFIDENCE, seed: int = 0
) -> Estimated:
    """The ``level`` quantile (an observed value) of all ``values`` [n], with clusters resampled whole.

    Only the upper part of the values is kept sorted: 1 - level of them, with a reserve for uneven clusters.

    Raises:
        InternalError: another number of clusters than of values.
    """
    _same(values, cluster)
    if not len(values):
        return Estimated(None, 0, f"{level:g} quantile: no value")
    _, at, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    return cluster_bootstrap(_quantile(values, at, sizes, level), len(sizes), f"{level:g} quantile", confidence, seed)


def _quantile(
    values: Values, at: NDArray[np.intp], sizes: NDArray[np.int64], level: float
) -> Callable[[Counts], Values]:
    order = np.argsort(values, kind="stable")[::-1]
    sorted_, owner = values[order], at[order]

    def of(counts: Counts) -> Values:
        totals = (counts * sizes).sum(axis=1).astype(np.int64)
        above = np.array([total - 1 - rank_of(level, int(total)) for total in totals])  # draws above the quantile
        rows = max(1, _BATCH // (int(above.max()) + 1))
        batches = range(0, len(counts), rows)
        return np.concatenate([_under(sorted_, owner, counts[at : at + rows], above[at : at + rows]) for at in batches])

    return of


def _under(sorted_: Values, owner: NDArray[np.intp], counts: Counts, above: NDArray[np.int64]) -> Values:
    """[rows] of descending values, each drawn as often as its owner, the first with more than ``above`` up to it."""
    take = int(above.max()) + 1
    while True:
        reached = np.cumsum(counts[:, owner[:take]], axis=1)
        if (reached[:, -1] > above).all():
            return np.asarray(sorted_[(reached <= above[:, None]).sum(axis=1)], np.float64)
        take *= 2


def cluster_bootstrap(
    statistic: Callable[[Counts], Values],
    clusters: int,
    name: str,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimated:
    """The statistic of the data with an interval over resampled clusters; ``name`` says in the method what it is.

    Coverage is below the nominal one under about 32 clusters with heavy tails: .80 at 8, .94 at 64 (docs/statistics.md).
    """
    value = float(statistic(np.ones((1, clusters)))[0])
    if clusters < 2:
        return Estimated(value, clusters, f"{name}: one cluster has no interval")
    drawn = _draws(statistic, clusters, resamples, seed)
    lost = int((~np.isfinite(drawn)).sum())
    if lost:
        return Estimated(value, clusters, f"{name}: undefined in {lost} of {resamples} resamples, so no interval")
    if (drawn == value).all():
        said = "exactly 0" if value == 0 else "the same number"
        return Estimated(value, clusters, f"{name}: {said} whichever clusters are drawn", value, value)
    levels, kind = _bca(value, drawn, statistic, clusters, confidence)
    low, high = np.quantile(drawn, levels)
    method = f"{name}, cluster bootstrap ({kind}), {confidence:.0%}"
    return Estimated(value, clusters, method, float(low), float(high))


def _draws(statistic: Callable[[Counts], Values], clusters: int, resamples: int, seed: int) -> Values:
    """The statistic of ``resamples`` draws of as many clusters, with replacement."""
    rng, size = np.random.default_rng(seed), max(1, _BATCH // clusters)
    found = []
    for at in range(0, resamples, size):
        rows = min(size, resamples - at)
        drawn = rng.integers(0, clusters, (rows, clusters)) + clusters * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters)
        found.append(statistic(counts.astype(np.float64)))
    return np.concatenate(found)


def _left_out(statistic: Callable[[Counts], Values], clusters: int) -> Values:
    """The statistic without each cluster in turn; beyond LEFT_OUT clusters, without each of that many groups of them.

    Sums of squares and cubes over groups estimate the same skew, because both moments add up over clusters.
    """
    groups = min(clusters, LEFT_OUT)
    size = max(1, _BATCH // clusters)
    group = np.arange(clusters) % groups
    batches = [np.arange(at, min(at + size, groups)) for at in range(0, groups, size)]
    return np.concatenate([statistic((group != batch[:, None]).astype(np.float64)) for batch in batches])


def _bca(
    value: float, drawn: Values, statistic: Callable[[Counts], Values], clusters: int, confidence: float
) -> tuple[list[float], str]:
    """The two quantile levels of the draws, and what they are called."""
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    # Draws that equal the value count half: statistics of few clusters repeat.
    below = ((drawn < value).sum() + (drawn == value).sum() / 2) / len(drawn)
    left_out = _left_out(statistic, clusters)
    pull = left_out.mean() - left_out
    spread = (pull**2).sum()
    if not 0 < below < 1 or not np.isfinite(spread) or spread == 0:
        return list(tails), "percentile"
    bias, skew = norm.ppf(below), (pull**3).sum() / (6 * spread**1.5)
    shifted = bias + norm.ppf(tails)
    if (skew * shifted >= 1).any():
        return list(tails), "percentile"
    return [float(each) for each in norm.cdf(bias + shifted / (1 - skew * shifted))], "BCa"


def _same(left: NDArray[np.generic], right: NDArray[np.generic]) -> None:
    if len(left) != len(right):
        raise InternalError(f"{len(left)} and {len(right)} values can't be paired; give one of each a case")
