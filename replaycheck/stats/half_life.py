"""How fast an error dies: slope of log|d| over the offset from the restore, against what the decays imply.

A wrong state is forgotten on the time scale of the layer's own decays. An error that doesn't die on that scale isn't a
one-off fault of a restore: it is a repeated rounding, a fault of the attention KV, or a forked context. Theil-Sen (Sen
1968, J. Am. Stat. Assoc. 63): the median of all pairwise slopes, which three outliers in ten can't move far.
"""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
from scipy import stats

from replaycheck.errors import InternalError

from .estimate import Estimated
from .intervals import CONFIDENCE
from .reduction import Values

__all__ = ["MOST_POINTS", "decay_rate", "half_life"]

MOST_POINTS = 4096
"""All pairs are kept: 8 million slopes, 64 MiB."""


def decay_rate(values: Values, offset: Values, floor: float = 0.0, confidence: float = CONFIDENCE) -> Estimated:
    """Loss of log|d| a token, from ``values`` [n] (|d|, at least 0) at ``offset`` [n], ascending; negative: it grows.

    The fit ends before the first value at or under ``floor``: what is left there is noise, which doesn't decay, and leaving
    out single low values would flatten the slope. The interval (Sen's) takes residuals as independent; those of
    one trace aren't, so no gate takes it.
    """
    if len(values) > MOST_POINTS:
        raise InternalError(f"{len(values)} points were given and {MOST_POINTS} are allowed; average by offset first")
    under = np.flatnonzero(values <= floor)
    kept = slice(int(under[0]) if len(under) else len(values))
    x, y = offset[kept], np.log(values[kept])
    if len(np.unique(x)) < 2:
        return Estimated(None, len(x), "Theil-Sen: fewer than two offsets above the floor")
    slope, _, low, high = stats.theilslopes(y, x, confidence)
    return Estimated(-float(slope), len(x), f"Theil-Sen, {confidence:.0%}", -float(high), -float(low))


def half_life(rate: Estimated) -> Estimated:
    """Tokens in which an error of decay ``rate`` halves: ln 2 / rate. None on a side where it doesn't decay."""
    return replace(rate, value=_tokens(rate.value), low=_tokens(rate.high), high=_tokens(rate.low))


def _tokens(rate: float | None) -> float | None:
    return log(2) / rate if rate is not None and rate > 0 else None
