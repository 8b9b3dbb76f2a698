"""Positions at which an arm gave no log-probability: left out, or NaN. Each kind with its first place."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from replaycheck.schema.gaps import Gaps, Where

from .record import ScoredTurn

__all__ = ["add_gaps", "gaps_of"]

Mask = NDArray[np.bool_]


def gaps_of(turns: Iterable[ScoredTurn]) -> Gaps | None:
    """Of the scored turns of an arm, in key order; None if it said a number everywhere."""
    missing, nan = 0, 0
    first_missing: Where | None = None
    first_nan: Where | None = None
    for turn in sorted(turns, key=lambda each: each.key):
        left_out, not_a_number = _masks(turn)
        missing, nan = missing + int(left_out.sum()), nan + int(not_a_number.sum())
        first_missing = first_missing or _first(turn, left_out)
        first_nan = first_nan or _first(turn, not_a_number)
    if not missing and not nan:
        return None
    return Gaps(missing=missing, first_missing=first_missing, nan=nan, first_nan=first_nan)


def _masks(turn: ScoredTurn) -> tuple[Mask, Mask]:
    """[n] left out, and NaN."""
    if turn.top is not None:
        return turn.top.missing, np.isnan(turn.top.token) & ~turn.top.missing
    # Logits of a masked token are -infinity, which is a number; one NaN spoils the whole softmax.
    return np.zeros(len(turn.positions), np.bool_), np.asarray(np.isnan(turn.logits).any(axis=1))


def _first(turn: ScoredTurn, mask: Mask) -> Where | None:
    if not mask.any():
        return None
    position = int(turn.positions[int(mask.argmax())])
    return Where(trace=turn.trace, branch=turn.branch, turn=turn.turn, position=position)


def add_gaps(a: Gaps | None, b: Gaps | None) -> Gaps | None:
    """Of two parts, in their order."""
    if a is None or b is None:
        return a or b
    return Gaps(
        missing=a.missing + b.missing,
        first_missing=a.first_missing or b.first_missing,
        nan=a.nan + b.nan,
        first_nan=a.first_nan or b.first_nan,
    )
