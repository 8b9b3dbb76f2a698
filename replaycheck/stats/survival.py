"""Survival of the first divergence: the share of branches that haven't parted after so many tokens.

The clock starts at the first restore; a branch that ends without a divergence is censored at its last scored position.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .estimate import Estimated
from .intervals import CONFIDENCE, upper_bound
from .reduction import Codes

__all__ = ["OFFSETS", "Survival", "first_of_traces", "survival"]

Tokens = NDArray[np.int64]

OFFSETS = (256, 1024)
"""Tokens at which a report prints the share (docs/statistics.md, First divergence): a short answer and a long one."""


@dataclass(frozen=True)
class Survival:
    """A Kaplan-Meier curve: it is 1 before ``tokens[0]`` and steps to ``share[i]`` at ``tokens[i]``."""

    tokens: Tokens  # [steps] offsets of divergence or censoring, ascending
    share: NDArray[np.float64]  # [steps]
    low: NDArray[np.float64]  # [steps] log-log band; NaN where it isn't defined (no divergence yet, or all diverged)
    high: NDArray[np.float64]
    at_risk: Tokens  # [steps] branches still undecided just before
    events: Tokens  # [steps] divergences at this offset
    censored: Tokens  # [m] offsets of the censored branches, ascending

    def at(self, offset: int) -> float:
        """Share of branches without a divergence up to and including ``offset`` tokens."""
        step = int(np.searchsorted(self.tokens, offset, side="right"))
        return 1.0 if step == 0 else float(self.share[step - 1])

    def median(self) -> int | None:
        """Tokens after which half of the branches have parted; None if that is never reached."""
        reached = np.flatnonzero(self.share <= 0.5)
        return int(self.tokens[reached[0]]) if len(reached) else None

    def restricted_mean(self, horizon: int) -> float:
        """Mean tokens without divergence up to ``horizon``: the area under the curve."""
        edges, shares = self._steps(horizon)
        return float((np.diff(edges) * shares).sum())

    def _steps(self, horizon: int) -> tuple[Tokens, NDArray[np.float64]]:
        """Where the curve steps up to ``horizon``, from 0 on, and its share between each two of them."""
        edges = np.concatenate([[0], self.tokens[self.tokens < horizon], [horizon]])
        return edges, np.concatenate([[1.0], self.share[: len(edges) - 2]])

    def share_at(self, offset: int) -> Estimated:
        """S(offset) with its log-log band; n is the number of cases. None where no case was observed that long.

        The band doesn't exist at 1 and 0. At 1 the lower side is the exact one of no event among the cases observed up to
        ``offset``; at 0 the upper side is that of the step before, since a survival curve only falls.
        """
        n, seen, value = int(self.at_risk[0]), self.at_risk_at(offset), self.at(offset)
        if not seen and value > 0:
            return Estimated(None, n, f"Kaplan-Meier: no case was observed for {offset} tokens")
        if value == 1:
            return Estimated(1.0, n, f"exact binomial, none of {seen} parted", 1 - upper_bound(0, seen), 1.0)
        step = int(np.searchsorted(self.tokens, offset, side="right")) - 1
        method = f"Kaplan-Meier, log-log, {CONFIDENCE:.0%}"
        if value > 0:
            return Estimated(value, n, method, float(self.low[step]), float(self.high[step]))
        defined = self.high[: step + 1][np.isfinite(self.high[: step + 1])]
        return Estimated(0.0, n, method, 0.0, float(defined[-1]) if len(defined) else upper_bound(0, n))

    def at_risk_at(self, offset: int) -> int:
        """Cases whose divergence or end comes at ``offset`` tokens or later: the number under a plot."""
        step = int(np.searchsorted(self.tokens, offset, side="left"))
        return int(self.at_risk[step]) if step < len(self.tokens) else 0

    def restricted_mean_estimate(self, horizon: int) -> Estimated:
        """Restricted mean with a normal interval; its standard error is Greenwood's of an area (Klein & Moeschberger
        2003, eq. 4.5.2): Σ (area to the right)² · d / (Y·(Y - d)) over the times of divergence.
        """
        if not self.at_risk_at(horizon) and self.share[-1] > 0:
            said = f"restricted mean: no case was observed for {horizon} tokens; the longest has {self.tokens[-1]}"
            return Estimated(None, int(self.at_risk[0]), said)
        value, error = self.restricted_mean(horizon), self.restricted_mean_error(horizon)
        half = float(stats.norm.ppf((1 + CONFIDENCE) / 2)) * error
        method = f"restricted mean to {horizon}, Greenwood, {CONFIDENCE:.0%}"
        return Estimated(value, int(self.at_risk[0]), method, max(value - half, 0.0), min(value + half, float(horizon)))

    def restricted_mean_error(self, horizon: int) -> float:
        """Standard error of ``restricted_mean``, tokens."""
        inside = (self.events > 0) & (self.tokens < horizon)
        edges, shares = self._steps(horizon)
        areas = np.cumsum((np.diff(edges) * shares)[::-1])[::-1]  # [steps + 1] from each edge to the horizon
        right = areas[1:][inside[: len(areas) - 1]]
        died, risk = self.events[inside], self.at_risk[inside]
        # Where all remaining cases part at once nothing is left to the right: 0 · ∞ is 0.
        weight = np.divide(died, risk * (risk - died), out=np.zeros(len(risk)), where=risk > died)
        return float(np.sqrt((right**2 * weight).sum()))


def survival(offsets: Tokens, censored: NDArray[np.bool_]) -> Survival:
    """Kaplan-Meier estimate from one offset [n] a branch and whether it is ``censored`` [n]; n must be positive."""
    data = stats.CensoredData(uncensored=offsets[~censored], right=offsets[censored])
    estimate = stats.ecdf(data).sf
    with warnings.catch_warnings():
        # log(-log(share)) doesn't exist where the share is 0 or 1; the band is NaN there, which the fields say.
        warnings.simplefilter("ignore", RuntimeWarning)
        band = estimate.confidence_interval(CONFIDENCE, method="log-log")
    tokens = np.asarray(estimate.quantiles, dtype=np.int64)
    return Survival(
        tokens=tokens,
        share=np.asarray(estimate.probabilities, dtype=np.float64),
        low=np.asarray(band.low.probabilities, dtype=np.float64),
        high=np.asarray(band.high.probabilities, dtype=np.float64),
        at_risk=len(offsets) - np.searchsorted(np.sort(offsets), tokens, side="left"),
        events=np.diff(np.searchsorted(np.sort(offsets[~censored]), tokens, side="right"), prepend=0),
        censored=np.sort(offsets[censored]),
    )


def first_of_traces(offsets: Tokens, censored: NDArray[np.bool_], trace: Codes) -> tuple[Tokens, NDArray[np.bool_]]:
    """One case a trace [traces], by code: its earliest divergence of any branch [n], or its longest branch, censored.

    Branches of a trace share their prefix and aren't independent; the band of the curve takes cases as independent.
    """
    codes, at = np.unique(trace, return_inverse=True)
    first = np.full(len(codes), np.iinfo(np.int64).max)
    longest = np.zeros(len(codes), np.int64)
    np.minimum.at(first, at[~censored], offsets[~censored])
    np.maximum.at(longest, at, offsets)
    parted = np.isin(np.arange(len(codes)), at[~censored])
    return np.where(parted, first, longest), ~parted
