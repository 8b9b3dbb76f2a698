"""Counts of conv states by cell, layer and pool dtype, and how many differ in bytes: what a gate reads of RESTORES rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .columns import flags, integers, names, starts

__all__ = ["CONV_COLUMNS", "ConvCount", "ConvSums"]

CONV_COLUMNS = ("cell", "trace", "restore", "layer", "dtype", "conv_equal")


@dataclass(frozen=True)
class ConvCount:
    """Conv states (restore and layer; they have no heads) of one cell and layer, and how many differ in bytes."""

    cell: str
    layer: int
    dtype: str
    states: int
    unequal: int


class ConvSums:
    """Sums over the parts of a run."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int, str], list[int]] = {}

    def add(self, restores: pa.Table) -> None:
        """Rows of whole traces, in the order of their key; a null ``conv_equal`` is no difference that was seen."""
        cell, trace, restore, dtype = (names(restores[name]) for name in ("cell", "trace", "restore", "dtype"))
        layer, unequal = integers(restores["layer"]), ~flags(restores["conv_equal"], unseen=True)
        first = starts(cell.code, trace.code, restore.code, layer)
        place = np.stack([cell.code[first], layer[first], dtype.code[first]])
        keys, at = np.unique(place, axis=1, return_inverse=True)
        states = np.bincount(at, minlength=keys.shape[1])
        bad = np.bincount(at, unequal[first], minlength=keys.shape[1])
        for (of, number, kind), n, different in zip(keys.T.tolist(), states.tolist(), bad.tolist(), strict=True):
            sums = self._counts.setdefault((cell.of[of], number, dtype.of[kind]), [0, 0])
            sums[0] += n
            sums[1] += int(different)

    def finish(self) -> tuple[ConvCount, ...]:
        """By cell, layer and dtype."""
        return tuple(ConvCount(*key, *self._counts[key]) for key in sorted(self._counts))
