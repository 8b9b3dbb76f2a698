"""The same position under two arms: the PAIRS rows of a cell on a group, while the logits are in memory.

Positions whose logits have the same bits differ by exactly 0 in everything; only the others are computed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.errors import InternalError
from replaycheck.schema.arm import Cell
from replaycheck.schema.frames import in_order, plain

from .logits import blocks, kl, log_softmax, margins, top1
from .record import ArmRecording, ScoredTurn

__all__ = ["pair"]


def pair(cell: Cell, reference: ArmRecording, candidate: ArmRecording, experiment: str = "forced") -> pa.Table:
    """The PAIRS rows of ``cell``. Raises :class:`InternalError` if the arms didn't score the same tokens."""
    turns = {turn.key: turn for turn in reference.turns}
    if turns.keys() != {turn.key for turn in candidate.turns}:
        raise InternalError(f"cell {cell.name!r}: the arms scored different turns, so they can't be paired")
    parts = [_turn(cell, experiment, turns[turn.key], turn) for turn in candidate.turns]
    return in_order("pairs", parts)


def _turn(cell: Cell, experiment: str, reference: ScoredTurn, candidate: ScoredTurn) -> pa.Table:
    _refuse_unlike(cell, reference, candidate)
    n = len(candidate.positions)
    offset = [None] * n if candidate.restore is None else candidate.positions - candidate.restore
    columns = {
        "cell": [cell.name] * n,
        "experiment": [experiment] * n,
        "cluster": [candidate.cluster] * n,
        "trace": [candidate.trace] * n,
        "branch": [candidate.branch] * n,
        "turn": [candidate.turn] * n,
        "position": candidate.positions,
        "role": [candidate.role] * n,
        "offset_from_restore": offset,
    }
    return plain("pairs", columns | _differences(reference.logits, candidate.logits, candidate.tokens))


def _refuse_unlike(cell: Cell, reference: ScoredTurn, candidate: ScoredTurn) -> None:
    same = (
        reference.logits.shape == candidate.logits.shape
        and np.array_equal(reference.positions, candidate.positions)
        and np.array_equal(reference.tokens, candidate.tokens)
    )
    if not same:
        raise InternalError(f"cell {cell.name!r}, turn {candidate.key}: the arms scored different positions or tokens")


def _differences(
    reference: NDArray[np.float32], candidate: NDArray[np.float32], tokens: NDArray[np.int32]
) -> dict[str, NDArray[np.generic]]:
    """The columns that compare logits [n, vocabulary]; NaN where a side has no distribution."""
    equal = _same_bits(reference, candidate)
    differ = np.flatnonzero(~equal)
    dlogp, divergence = np.zeros(len(equal)), np.zeros(len(equal))
    for block in blocks(len(differ), reference.shape[1]):
        rows = differ[block]
        a, b = log_softmax(reference[rows]), log_softmax(candidate[rows])
        at = np.arange(len(rows)), tokens[rows]
        with np.errstate(invalid="ignore"):  # both -infinity: a masked token, no difference that could be told
            dlogp[rows] = b[at] - a[at]
        divergence[rows] = kl(a, b)
    best = top1(reference)
    dlogp[best < 0] = divergence[best < 0] = np.nan  # the same NaN twice is no agreement
    return {
        "dlogp": dlogp,
        "kl": divergence,
        "flip": best != top1(candidate),
        "margin": margins(reference),
        "bits_equal": equal,
    }


def _same_bits(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.bool_]:
    """[n] whether all logits of a row have the same bits: -0 isn't 0, and a NaN is itself."""
    bits_a = np.ascontiguousarray(a, dtype=np.float32).view(np.uint32)
    bits_b = np.ascontiguousarray(b, dtype=np.float32).view(np.uint32)
    return np.asarray((bits_a == bits_b).all(axis=1))
