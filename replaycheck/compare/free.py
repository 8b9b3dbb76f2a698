"""Which positions of two free runs can be compared: those whose prefix both arms share, as far as the first difference.

Up to and including the first token that differs, both arms have run the same tokens, so these positions are paired and may
gate (docs/free-runs.md). What follows has another prefix: it differs by construction and says nothing.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from replaycheck.errors import InternalError

from .scored import Scored

__all__ = ["shared_by_rows", "shared_prefix"]

Mask = NDArray[np.bool_]


def shared_prefix(cell: str, reference: Scored, candidate: Scored) -> Mask:
    """[rows of the candidate] of a cell. Raises :class:`InternalError` if the arms scored different turns or positions."""
    same = np.array_equal(reference.positions, candidate.positions)
    if not same or [turn.key for turn in reference.turns] != [turn.key for turn in candidate.turns]:
        raise InternalError(f"cell {cell!r}: the arms ran different turns freely; both follow one plan of lengths")
    kept = np.zeros(len(candidate), np.bool_)
    ends = np.concatenate([[0], np.cumsum(candidate.sizes)])
    for a, b, (first, last) in zip(reference.turns, candidate.turns, pairwise(ends.tolist()), strict=True):
        if a.history is None or a.history != b.history:
            continue
        apart = np.flatnonzero(reference.tokens[first:last] != candidate.tokens[first:last])
        kept[first : first + apart[0] + 1 if len(apart) else last] = True
    return kept


def shared_by_rows(both: pd.DataFrame) -> Mask:
    """[rows] of saved observations of two runs, merged by position; forced rows are all kept.

    A recording doesn't say which answers a branch continues. So a trace's rows are kept before the position of its first
    difference, and that position itself: what lies after it may have another prefix.
    """
    free = (both["experiment"] == "free").to_numpy()
    apart = free & (both["token_a"] != both["token_b"]).to_numpy()
    position = both["position"].to_numpy()
    first = both[["trace"]].assign(position=np.where(apart, position, np.iinfo(np.int64).max))
    soonest = first.groupby("trace", sort=False, observed=True)["position"].transform("min").to_numpy()
    return np.asarray(~free | (position < soonest) | (apart & (position == soonest)))
