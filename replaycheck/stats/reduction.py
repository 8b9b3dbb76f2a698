"""One number a trace first (docs/statistics.md): tokens of a trace share a prefix and a state, so they are one case.

Positions come as flat arrays: a value and the code of its trace; traces need not be contiguous. Every function gives the
codes that had a value, ascending, and one number for each. Then ``by_cluster`` joins traces that share text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replaycheck.errors import InternalError

__all__ = ["WINDOW", "PerTrace", "by_cluster", "trace_means", "window_means"]

Values = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]

WINDOW = 64
"""Tokens after a restore that its window holds: one chunk of the grid, within which a state error has had no other
store or boundary to mix with (at a decay of 0.02 nat a token it has lost more than seven tenths by then)."""


@dataclass(frozen=True)
class PerTrace:
    """trace: codes [m], ascending; value: one number each [m]."""

    trace: NDArray[np.int64]
    value: Values

    def __len__(self) -> int:
        return len(self.trace)


def trace_means(values: Values, trace: Codes) -> PerTrace:
    """Mean of ``values`` [n] of each trace.

    Raises:
        InternalError: another number of codes than of values, or a value that isn't finite.
    """
    codes, at, count = _group(values, trace)
    return PerTrace(codes, np.bincount(at, weights=values, minlength=len(codes)) / count)


def window_means(values: Values, trace: Codes, offset: Codes, width: int = WINDOW) -> PerTrace:
    """Mean of ``values`` [n] at the first ``width`` tokens after a restore, of each trace that has such a position.

    ``offset`` [n] counts tokens since the last restore; negative means before the first one.
    """
    inside = (offset >= 0) & (offset < width)
    return trace_means(values[inside], trace[inside])


def by_cluster(found: PerTrace, cluster: Codes) -> Values:
    """Mean over the traces of each cluster, [clusters] in the order of their codes.

    ``cluster`` gives the cluster of every trace code: cluster[code]. Without clusters, use ``found.value`` itself.

    >>> by_cluster(trace_means(np.array([1.0, 3.0, 8.0, 6.0]), np.array([0, 0, 1, 2])), np.array([0, 0, 1]))
    array([5., 6.])
    """
    return trace_means(found.value, cluster[found.trace]).value


def _group(values: Values, trace: Codes) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.int64]]:
    """The codes that occur, the group of each value, and the size of each group."""
    if len(values) != len(trace):
        raise InternalError(f"{len(values)} values came with {len(trace)} trace codes; each value needs one")
    if not np.isfinite(values).all():
        raise InternalError(
            "a value isn't finite; positions without a finite difference are counted before, not averaged"
        )
    codes, at, count = np.unique(trace, return_inverse=True, return_counts=True)
    return codes.astype(np.int64), at, count.astype(np.int64)
