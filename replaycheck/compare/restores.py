"""What a restore gave back, held against the live state at the same token: the RESTORES rows of a cell on a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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

__all__ = ["LARGEST", "restores"]

LARGEST = float(np.finfo(np.float32).max)
"""Stands for an error without a finite size (an overflow, a NaN), so that every number fits JSON."""


def restores(cells: Sequence[Cell], recordings: Mapping[str, ArmRecording]) -> pa.Table:
    """The RESTORES rows of all cells, in key order: one a restore of the candidate, layer and head.

    A reference that keeps no states (cold) gives none, and neither does a grid cell, whose candidate restores nothing, nor a
    cell of requests in flight at once, which may restore at other tokens.
    Raises :class:`InternalError` if a restore has no counterpart in split or split-rounded, which cut at every restore.
    """
    shares: dict[int, list[float]] = {}  # by state: its cells share it
    found: list[dict[str, Any]] = []
    for cell in cells:
        states = {state.key: state for state in recordings[cell.reference].restores}
        if cell.effect in (Effect.GRID, Effect.TOGETHER) or (cell.effect is Effect.TOTAL and not states):
            continue
        for state in recordings[cell.candidate].restores:
            found.append(_state(cell, states.get(state.key), state, shares))
    if not found:
        return RESTORES.empty_table()
    return to_arrow("restores", {name: np.concatenate([each[name] for each in found]) for name in RESTORES.names})


def _state(cell: Cell, reference: StateAt | None, candidate: StateAt, shares: dict[int, list[float]]) -> dict[str, Any]:
    if reference is None:
        raise InternalError(f"cell {cell.name!r}: the reference has no live state for the restore {candidate.key}")
    if reference.temporal.shape != candidate.temporal.shape or reference.layers != candidate.layers:
        raise InternalError(f"cell {cell.name!r}, restore {candidate.key}: the arms' states have different shapes")
    layers, heads = candidate.temporal.shape[:2]
    n = layers * heads
    pool = PoolDtype(candidate.dtype)
    if id(candidate) not in shares:
        shares[id(candidate)] = [bf16_share(head, pool) for layer in candidate.temporal for head in layer]
    columns: dict[str, Any] = {
        "cell": [cell.name] * n,
        "trace": [candidate.trace] * n,
        "restore": [f"{candidate.branch}/{candidate.turn}@{candidate.position}"] * n,
        "layer": np.repeat(np.asarray(candidate.layers, dtype=np.int32), heads),
        "head": np.tile(np.arange(heads, dtype=np.int32), layers),
        "bf16_share": shares[id(candidate)],
        "conv_equal": np.repeat((reference.conv == candidate.conv).all(axis=1), heads),
        "label": [candidate.label] * n,
        "dtype": [str(pool)] * n,
    }
    return columns | _errors(reference.temporal, candidate.temporal, pool)


def _errors(
    reference: NDArray[np.float32], candidate: NDArray[np.float32], pool: PoolDtype
) -> dict[str, NDArray[np.float64]]:
    """The error columns, [layers·heads], of states [layers, heads, V, K]."""
    flat = (reference.shape[0] * reference.shape[1], -1)
    live, stored = reference.reshape(flat), candidate.reshape(flat)
    size = np.sqrt((live.astype(np.float64) ** 2).sum(axis=1))
    relative, largest = _error(live, stored, size)
    one_cast, _ = _error(live, cast(live, pool), size)
    return {"rel_error": relative, "max_error": largest, "one_cast_error": one_cast}


def _error(
    live: NDArray[np.float32], stored: NDArray[np.float32], size: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[n] Frobenius norm of the difference over ``size``, that of ``live``, and the largest element; 0 for equal bits.

    An element whose bits are the same has no error, so an infinity equals itself.
    """
    same = _bits(live) == _bits(stored)
    if same.all():
        return np.zeros(len(live)), np.zeros(len(live))
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.abs(np.subtract(live, stored, dtype=np.float64))
        difference[same] = 0.0
        norm = np.sqrt((difference**2).sum(axis=1))
        return _finite(np.where(norm == 0, 0.0, norm / size)), _finite(difference.max(axis=1))


def _bits(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(values).view(np.uint32)


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.nan_to_num(values, nan=LARGEST, posinf=LARGEST)
