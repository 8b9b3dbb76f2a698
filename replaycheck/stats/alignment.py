"""|d| averaged round restores, against random other positions of the same traces: the most specific test for faults of
the state (docs/statistics.md, Where it begins).

A fault of a restore shows after it and not before. The statistic is the mean of the first AFTER tokens less the mean of
the BEFORE tokens in front: one number a restore, averaged over the restores of a trace, then over traces. Under the null
restores are positions like any other, so the same number is taken at random positions of the same traces, as many in each
(a permutation test; Phipson & Smyth 2010 for p = (1 + k) / (1 + draws)). A trend along the trace cancels in the contrast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replaycheck.errors import InternalError

from .reduction import Values

__all__ = ["AFTER", "BEFORE", "FIRST", "LAST", "Aligned", "aligned_average"]

FIRST, LAST = -32, 256
"""Offsets of the curve, both included: half a chunk before, four chunks after."""
BEFORE, AFTER = 32, 32
"""Tokens on each side of the contrast: under half a chunk, so that the next boundary of the grid isn't in it."""
DRAWS = 999
"""The smallest p is then 0.001."""


@dataclass(frozen=True)
class Aligned:
    """``p``: one-sided, of a contrast as large at random positions; None where no restore can be used."""

    offset: NDArray[np.int64]  # [LAST - FIRST + 1]
    mean: Values  # [same] over traces of the trace's mean; NaN where nothing was scored
    traces: NDArray[np.int64]  # [same] traces with a scored position at the offset
    contrast: float | None  # after less before
    p: float | None
    restores: int  # that could be used: scored tokens on both sides
    unused: int


def aligned_average(
    values: Sequence[Values], restores: Sequence[NDArray[np.int64]], seed: int = 0, draws: int = DRAWS
) -> Aligned:
    """``values``: |d| of each trace by position, NaN where it wasn't scored; ``restores``: positions in each trace."""
    if len(values) != len(restores):
        raise InternalError(f"{len(values)} traces came with restores of {len(restores)}; each trace needs its own")
    mean, traces = _curve(values, restores)
    contrasts = [_contrasts(each) for each in values]
    usable = [_usable(found, at) for found, at in zip(contrasts, restores, strict=True)]
    used = sum(map(len, usable))
    cases = [(found, at) for found, at in zip(contrasts, usable, strict=True) if len(at)]
    observed = float(np.mean([found[at].mean() for found, at in cases])) if cases else None
    return Aligned(
        offset=np.arange(FIRST, LAST + 1),
        mean=mean,
        traces=traces,
        contrast=observed,
        p=None if observed is None else _p(observed, cases, seed, draws),
        restores=used,
        unused=sum(map(len, restores)) - used,
    )


def _usable(contrasts: Values, at: NDArray[np.int64]) -> NDArray[np.int64]:
    inside = at[(at >= 0) & (at < len(contrasts))]
    return inside[np.isfinite(contrasts[inside])]


def _curve(values: Sequence[Values], restores: Sequence[NDArray[np.int64]]) -> tuple[Values, NDArray[np.int64]]:
    offsets = np.arange(FIRST, LAST + 1)
    total, traces = np.zeros(len(offsets)), np.zeros(len(offsets), np.int64)
    for each, at in zip(values, restores, strict=True):
        index = at[:, None] + offsets  # [restores, offsets]
        inside = (index >= 0) & (index < len(each))
        found = np.where(inside, each[np.clip(index, 0, len(each) - 1)], np.nan) if len(each) else index * np.nan
        seen = np.isfinite(found)
        count = seen.sum(axis=0)
        total += np.where(count > 0, np.where(seen, found, 0).sum(axis=0) / np.maximum(count, 1), 0)
        traces += count > 0
    return np.where(traces > 0, total / np.maximum(traces, 1), np.nan), traces


def _contrasts(values: Values) -> Values:
    """[n] at each position: mean of the scored tokens from it on, less that of those before it; NaN without both."""
    n, scored = len(values), np.isfinite(values)
    total = np.concatenate([[0.0], np.cumsum(np.where(scored, values, 0))])
    count = np.concatenate([[0], np.cumsum(scored)])
    at = np.arange(n)
    low, high = np.maximum(at - BEFORE, 0), np.minimum(at + AFTER, n)
    with np.errstate(invalid="ignore", divide="ignore"):
        after = (total[high] - total[at]) / (count[high] - count[at])
        before = (total[at] - total[low]) / (count[at] - count[low])
    return np.asarray(after - before, np.float64)


def _p(observed: float, cases: Sequence[tuple[Values, NDArray[np.int64]]], seed: int, draws: int) -> float:
    """Positions are drawn with replacement: few of many, so repeats are rare, and they err towards a larger p."""
    rng = np.random.default_rng(seed)
    drawn = np.zeros(draws)
    for found, at in cases:
        known = found[np.isfinite(found)]
        drawn += known[rng.integers(0, len(known), (draws, len(at)))].mean(axis=1)
    return float((1 + (drawn / len(cases) >= observed).sum()) / (1 + draws))
