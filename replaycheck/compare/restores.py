"""What a restore gave back, held against the live state at the same token: the RESTORES rows of a cell on a group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.audit.provenance import bf16_share
from replaycheck.errors import InternalError
from replaycheck.schema.arm import Cell, Effect, PoolDtype
from replaycheck.schema.frames import to_arrow
from replaycheck.schema.tables import RESTORES

from .casts import cast
from .record import ArmRecording, StateAt

__all__ = ["compare_restores"]

LARGEST = float(np.finfo(np.float32).max)
"""Stands for an error without a finite size (an overflow, a NaN), so that every number fits JSON."""


def compare_restores(cell: Cell, reference: ArmRecording, candidate: ArmRecording) -> pa.Table:
    """The RESTORES rows of ``cell``: one a restore of the candidate, layer and head.

    A reference that keeps no states (cold) gives none, and neither does a grid cell, whose candidate restores nothing.
    Raises :class:`InternalError` if a restore has no counterpart in split or split-rounded, which cut at every restore.
    """
    states = {state.key: state for state in reference.restores}
    if cell.effect is Effect.GRID or (cell.effect is Effect.TOTAL and not states):
        return RESTORES.empty_table()
    parts = [_state(cell, states.get(state.key), state) for state in candidate.restores]
    return to_arrow("restores", pa.concat_tables(parts) if parts else RESTORES.empty_table())


def _state(cell: Cell, reference: StateAt | None, candidate: StateAt) -> pa.Table:
    if reference is None:
        raise InternalError(f"cell {cell.name!r}: the reference has no live state for the restore {candidate.key}")
    if reference.temporal.shape != candidate.temporal.shape or reference.layers != candidate.layers:
        raise InternalError(f"cell {cell.name!r}, restore {candidate.key}: the arms' states have different shapes")
    layers, heads = candidate.temporal.shape[:2]
    n = layers * heads
    pool = PoolDtype(candidate.dtype)
    conv_equal = (reference.conv == candidate.conv).all(axis=1)
    columns = {
        "cell": [cell.name] * n,
        "trace": [candidate.trace] * n,
        "restore": [f"{candidate.branch}/{candidate.turn}@{candidate.position}"] * n,
        "layer": np.repeat(np.asarray(candidate.layers, dtype=np.int32), heads),
        "head": np.tile(np.arange(heads, dtype=np.int32), layers),
        "bf16_share": [bf16_share(head, pool) for layer in candidate.temporal for head in layer],
        "conv_equal": np.repeat(conv_equal, heads),
        "label": [candidate.label] * n,
        "dtype": [str(pool)] * n,
    }
    return to_arrow("restores", columns | _errors(reference.temporal, candidate.temporal, pool))


def _errors(
    reference: NDArray[np.float32], candidate: NDArray[np.float32], pool: PoolDtype
) -> dict[str, NDArray[np.float64]]:
    """The error columns, [layers·heads], of states [layers, heads, V, K]."""
    flat = (reference.shape[0] * reference.shape[1], -1)
    live, stored = reference.reshape(flat), candidate.reshape(flat)
    return {
        "rel_error": _relative(live, stored),
        "max_error": _finite(_difference(live, stored).max(axis=1)),
        "one_cast_error": _relative(live, cast(live, pool)),
    }


def _relative(live: NDArray[np.float32], stored: NDArray[np.float32]) -> NDArray[np.float64]:
    """[n] Frobenius norm of the difference over that of ``live``; 0 where both are zero."""
    error = np.sqrt((_difference(live, stored) ** 2).sum(axis=1))
    size = np.sqrt((live.astype(np.float64) ** 2).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return _finite(np.where(error == 0, 0.0, error / size))


def _difference(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    """|a - b|; 0 where the bits are the same, so that an infinity equals itself."""
    with np.errstate(invalid="ignore"):
        size = np.abs(a.astype(np.float64) - b.astype(np.float64))
    same = np.ascontiguousarray(a).view(np.uint32) == np.ascontiguousarray(b).view(np.uint32)
    return np.where(same, 0.0, size)


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.nan_to_num(values, nan=LARGEST, posinf=LARGEST)
