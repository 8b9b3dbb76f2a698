"""Survival of the first divergence: the share of branches that haven't parted after so many tokens (statistics.md C.4).

The clock starts at the first restore; a branch that ends without a divergence is censored at its last scored position.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .intervals import CONFIDENCE

__all__ = ["Survival", "survival"]

Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class Survival:
    """A Kaplan-Meier curve: it is 1 before ``tokens[0]`` and steps to ``share[i]`` at ``tokens[i]``."""

    tokens: Tokens  # [steps] offsets of divergence or censoring, ascending
    share: NDArray[np.float64]  # [steps]
    low: NDArray[np.float64]  # [steps] log-log band; NaN where it isn't defined (no divergence yet, or all diverged)
    high: NDArray[np.float64]
    at_risk: Tokens  # [steps] branches still undecided just before
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
        edges = np.concatenate([[0], self.tokens[self.tokens < horizon], [horizon]])
        shares = np.concatenate([[1.0], self.share[: len(edges) - 2]])
        return float((np.diff(edges) * shares).sum())


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
        at_risk=np.array([np.count_nonzero(offsets >= token) for token in tokens], dtype=np.int64),
        censored=np.sort(offsets[censored]),
    )
