"""What one arm said at each scored position: the OBSERVATIONS rows of a recording."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.schema.frames import in_order, plain
from replaycheck.schema.tables import OBSERVATIONS

from .logits import blocks, digests, log_softmax, margins, top1
from .record import ArmRecording, ScoredTurn

__all__ = ["TOP", "observe"]

TOP = 20
"""Alternatives that a recording keeps (DESIGN §3): what engines return at most, so recordings stay comparable."""


def observe(recording: ArmRecording, experiment: str = "forced") -> pa.Table:
    """The OBSERVATIONS rows of an arm on one group. Log-probabilities are computed in float64 from the fp32 logits."""
    parts = [_turn(recording.arm, experiment, turn) for turn in recording.turns]
    return in_order("observations", parts)


def _turn(arm: str, experiment: str, turn: ScoredTurn) -> pa.Table:
    n = len(turn.positions)
    offset = None if turn.restore is None else turn.positions - turn.restore
    columns = {
        "trace": [turn.trace] * n,
        "branch": [turn.branch] * n,
        "turn": [turn.turn] * n,
        "position": turn.positions,
        "role": [turn.role] * n,
        "token": turn.tokens,
        "arm": [arm] * n,
        "experiment": [experiment] * n,
        "restore": [turn.restore] * n,
        "offset_from_restore": [None] * n if offset is None else offset,
        "cluster": [turn.cluster] * n,
    }
    return plain("observations", columns | _said(turn))


def _said(turn: ScoredTurn) -> dict[str, object]:
    """The columns that come from the logits [n, vocabulary]."""
    best = top1(turn.logits)
    token_logprob, best_logprob = np.empty(len(best)), np.empty(len(best))
    kept = []
    for block in blocks(*turn.logits.shape):
        logprobs = log_softmax(turn.logits[block])
        rows = np.arange(len(logprobs))
        token_logprob[block] = logprobs[rows, turn.tokens[block]]
        best_logprob[block] = logprobs[rows, np.maximum(best[block], 0)]
        kept.append(_top(turn.logits[block], logprobs))
    return {
        "logprob": token_logprob,
        "top1": pa.array(best, mask=best < 0),
        "top1_logprob": best_logprob,
        "margin": margins(turn.logits),
        "top20": pa.chunked_array(kept, type=OBSERVATIONS.field("top20").type),
        "logits_digest": digests(turn.logits),
    }


def _top(logits: NDArray[np.float32], logprobs: NDArray[np.float64]) -> pa.ListArray:
    """The best ``TOP`` tokens of each row, best first, the lowest id first among equal ones."""
    order = np.argsort(-logits, axis=1, kind="stable")[:, :TOP]
    values = np.take_along_axis(logprobs, order, axis=1)
    entries = pa.StructArray.from_arrays(
        [pa.array(order.ravel(), type=pa.int32()), pa.array(values.ravel(), from_pandas=True)], ["id", "logprob"]
    )
    offsets = np.arange(0, order.size + 1, order.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, entries)
