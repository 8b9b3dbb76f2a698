"""Quantiles of what was observed: always one of the values, never a mean of two."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVELS", "quantiles"]

#: The levels that result.json reports of |Δ log-probability|.
LEVELS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}


def quantiles(values: NDArray[Any]) -> dict[str, float]:
    """For each level p, the smallest value that a share p of ``values`` [n] doesn't exceed; nothing for n = 0.

    With n < 1,000 the 99.9 % quantile is the maximum, which is what can be said of it.
    """
    if not len(values):
        return {}
    found = np.quantile(values, list(LEVELS.values()), method="inverted_cdf")
    return dict(zip(LEVELS, map(float, found), strict=True))
