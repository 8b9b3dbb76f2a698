"""Planning of exact rates: how many clean runs prove a small rate of false alarms, and what a number of runs can prove."""

from __future__ import annotations

from math import ceil, log, log1p

from scipy import stats

from replaycheck.errors import InternalError

from .intervals import CONFIDENCE, upper_bound
from .power import MOST_TRACES, POWER

__all__ = ["clean_runs_needed", "events_allowed", "exceeds_floor", "rate_power", "runs_needed"]


def clean_runs_needed(rate: float, confidence: float = CONFIDENCE) -> int:
    """Runs without any event that show a rate of at most ``rate``: the smallest n with (1 - rate)^n ≤ 1 - confidence.

    >>> clean_runs_needed(0.01), clean_runs_needed(0.05)
    (299, 59)
    """
    _inside(rate)
    return ceil(log(1 - confidence) / log1p(-rate))


def exceeds_floor(runs: int) -> float:
    """Probability that one more clean run lies above the largest of ``runs``, whatever the distribution: 1 / (runs + 1)."""
    return 1 / (runs + 1)


def events_allowed(n: int, rate: float, confidence: float = CONFIDENCE) -> int | None:
    """Most events in ``n`` runs whose exact upper bound is still at most ``rate``; None if even none is too many."""
    _inside(rate)
    # The bound of k events is at most ``rate`` exactly when k or fewer have probability at most 1 - confidence.
    most = int(stats.binom.ppf(1 - confidence, n, rate))
    while most >= 0 and upper_bound(most, n, confidence) > rate:
        most -= 1
    return most if most >= 0 else None


def rate_power(n: int, rate: float, true: float, confidence: float = CONFIDENCE) -> float:
    """Probability that ``n`` runs with the rate ``true`` show a rate of at most ``rate``."""
    most = events_allowed(n, rate, confidence)
    return 0.0 if most is None else float(stats.binom.cdf(most, n, true))


def runs_needed(rate: float, true: float, power: float = POWER, confidence: float = CONFIDENCE) -> int | None:
    """Fewest runs with a power of at least ``power``; None beyond MOST_TRACES or if ``true`` isn't below ``rate``.

    Power falls each time that n grows without allowing one event more, so n is sought among the n that just allow k.
    """
    if not true < rate:
        return None
    for k in range(MOST_TRACES):
        n = _fewest_allowing(k, rate, confidence)
        if n > MOST_TRACES:
            return None
        if stats.binom.cdf(k, n, true) >= power:
            return n
    return None


def _fewest_allowing(k: int, rate: float, confidence: float) -> int:
    """The smallest n for which k events still show the rate: P(k or fewer of n) ≤ 1 - confidence."""
    low, high = k, max(2 * k, 1)
    while stats.binom.cdf(k, high, rate) > 1 - confidence:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if stats.binom.cdf(k, middle, rate) <= 1 - confidence else (middle, high)
    return high


def _inside(rate: float) -> None:
    if not 0 < rate < 1:
        raise InternalError(f"a rate of {rate} was given; it must lie between 0 and 1")
