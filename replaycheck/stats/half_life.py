"""How fast an error dies: slope of log|d| over the offset from the restore, against what the decays imply (C.10).

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
from .intervals import CONFIDENCE, cluster_t
from .reduction import Values

__all__ = ["MOST_POINTS", "against_model", "decay_rate", "half_life", "half_life_of_traces"]

MOST_POINTS = 4096
"""All pairs are kept: 8 million slopes, 64 MiB."""


def decay_rate(values: Values, offset: Values, floor: float = 0.0, confidence: float = CONFIDENCE) -> Estimated:
    """Loss of log|d| a token, from ``values`` [n] (|d|, at least 0) at ``offset`` [n], ascending; negative: it grows.

    The fit ends before the first value at or under ``floor``: what is left there is noise, which doesn't decay, and leaving
    out single low values would flatten the slope. The interval (Sen's) takes residuals as independent; those of one
    trace aren't, so a gate takes ``half_life_of_traces``.
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


def half_life_of_traces(rates: Values, confidence: float = CONFIDENCE) -> Estimated:
    """Half-life of the mean decay rate, from one rate a trace [n], with the cluster-t interval of that mean."""
    if not len(rates):
        return Estimated(None, 0, "half-life: no trace")
    low, high = cluster_t(rates, confidence) or (None, None)
    method = f"ln 2 / mean decay rate, cluster-t, {confidence:.0%}"
    return half_life(Estimated(float(rates.mean()), len(rates), method, low, high))


def against_model(found: Estimated, model: float) -> Estimated:
    """Ratio of a half-life to that of the ``model``'s decays, in tokens: about 1 for one wrong restore, far above for
    what is written again and again.
    """
    if not model > 0:
        raise InternalError(f"a model half-life of {model} tokens was given; it must be positive")
    value, low, high = (None if each is None else each / model for each in (found.value, found.low, found.high))
    return Estimated(value, found.n, f"{found.method}; over {model:g} tokens", low, high)


def _tokens(rate: float | None) -> float | None:
    return log(2) / rate if rate is not None and rate > 0 else None
