"""What RESTORES rows add up to: extremes a cell, counts of conv states, and the rows that a diagnosis reads.

A diagnosis looks at the first faulty restore of each conversation and at the places (layer, head) that there are. So of a
clean run one row a place and cell is kept; of a faulty one also the first faulty rows of each cell and trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from replaycheck.schema.arm import Cell, Effect
from replaycheck.schema.frames import decoded, in_order, to_frame

from .cell_sums import larger, largest
from .columns import Names, flags, floats, integers, names, starts
from .conv_sums import ConvCount, ConvSums

__all__ = ["RestoreSums"]


@dataclass
class _Cell:
    rel_error: float | None = None
    max_error: float | None = None
    conv_unequal: int = 0


class RestoreSums:
    """Sums over the restores of all cells; rows are kept of the exact cells among ``cells``."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._exact = {cell.name for cell in cells if cell.effect is Effect.EXACT}
        self._cells: dict[str, _Cell] = {}
        self._conv = ConvSums()
        self._places: set[tuple[str, int, int]] = set()
        self._kept: list[pa.Table] = []

    def add(self, restores: pa.Table) -> None:
        """Rows of whole traces, in the order of their key."""
        if not restores.num_rows:
            return
        part = _Part.of(restores)
        for code, name in enumerate(part.cell.of):
            mine = part.cell.code == code
            sums = self._cells.setdefault(name, _Cell())
            sums.rel_error = larger(sums.rel_error, largest(part.rel_error[mine]))
            sums.max_error = larger(sums.max_error, largest(part.max_error[mine]))
            unequal = mine & ~part.conv_equal
            sums.conv_unequal += len(starts(part.trace.code[unequal], part.restore.code[unequal]))
        self._conv.add(restores)
        kept = self._rows_kept(part)
        if len(kept):
            self._kept.append(restores.take(kept))

    def _rows_kept(self, part: _Part) -> NDArray[np.int64]:
        exact = np.array([name in self._exact for name in part.cell.of], np.bool_)[part.cell.code]
        at = part.positions
        first_layer = part.layer == (part.layer[exact].min() if exact.any() else -1)
        faulty = part.first(exact & (part.max_error > 0), at) | part.first(exact & first_layer & ~part.conv_equal, at)
        return np.flatnonzero(faulty | self._new_places(part, exact))

    def _new_places(self, part: _Part, exact: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The first row of each cell, layer and head that no part had so far."""
        found = np.zeros(len(exact), np.bool_)
        frame = pd.DataFrame({"cell": part.cell.code, "layer": part.layer, "head": part.head})[exact]
        for row, cell, layer, head in frame.drop_duplicates().itertuples(name=None):
            place = part.cell.of[cell], int(layer), int(head)
            found[row] = place not in self._places
            self._places.add(place)
        return found

    def numbers(self, cell: str) -> dict[str, Any]:
        """The fields of a CellResult that restores decide."""
        sums = self._cells.get(cell, _Cell())
        return {
            "state_rel_error": sums.rel_error,
            "restore_max_error": sums.max_error,
            "conv_unequal": sums.conv_unequal,
        }

    @property
    def conv(self) -> tuple[ConvCount, ...]:
        """By cell, layer and dtype."""
        return self._conv.finish()

    @property
    def evidence(self) -> pd.DataFrame:
        """The RESTORES rows that were kept, in key order."""
        return to_frame(in_order("restores", [decoded(part) for part in self._kept]))


@dataclass(frozen=True)
class _Part:
    """RESTORES rows as arrays [rows]."""

    cell: Names
    trace: Names
    restore: Names
    layer: NDArray[np.int64]
    head: NDArray[np.int64]
    rel_error: NDArray[np.float64]
    max_error: NDArray[np.float64]
    conv_equal: NDArray[np.bool_]

    @classmethod
    def of(cls, restores: pa.Table) -> _Part:
        return cls(
            names(restores["cell"]),
            names(restores["trace"]),
            names(restores["restore"]),
            integers(restores["layer"]),
            integers(restores["head"]),
            floats(restores["rel_error"]),
            floats(restores["max_error"]),
            flags(pc.fill_null(restores["conv_equal"], True)),
        )

    @property
    def positions(self) -> NDArray[np.int64]:
        """The tokens that each restored state covers."""
        of_name = [int(name.rpartition("@")[2]) for name in self.restore.of]
        return np.array(of_name, np.int64)[self.restore.code]

    def first(self, bad: NDArray[np.bool_], at: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of the bad rows, those at the smallest position of their cell and trace."""
        rows = np.flatnonzero(bad)
        found = np.zeros(len(bad), np.bool_)
        key = self.cell.code[rows] * len(self.trace.of) + self.trace.code[rows]
        smallest = pd.Series(at[rows]).groupby(key).transform("min").to_numpy()
        found[rows] = at[rows] == smallest
        return found
