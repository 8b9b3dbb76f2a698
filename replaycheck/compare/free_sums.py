"""What the free runs of a cell's arms add up to: paired positions, and where branches parted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replaycheck.schema.result import FreeResult

from .columns import flags, names
from .divergence import DivergenceSums

__all__ = ["FreeSums"]


@dataclass
class _Cell:
    traces: int = 0
    positions: int = 0
    bits_differ: int = 0


class FreeSums:
    """Sums over parts, which hold whole traces."""

    def __init__(self) -> None:
        self._cells: dict[str, _Cell] = {}
        self._parted = DivergenceSums("free")

    def add(self, pairs: pa.Table, parted: pa.Table) -> None:
        """PAIRS and DIVERGENCES rows; those of the forced experiment are passed over."""
        self._parted.add(parted)
        experiment, cell, trace = (names(pairs[name]) for name in ("experiment", "cell", "trace"))
        free = experiment.code == experiment.named("free")
        if not free.any():
            return
        equal = flags(pairs["bits_equal"], unseen=True)
        for code, name in enumerate(cell.of):
            rows = free & (cell.code == code)
            mine = self._cells.setdefault(name, _Cell())
            mine.traces += len(np.unique(trace.code[rows]))
            mine.positions += int(rows.sum())
            mine.bits_differ += int((rows & ~equal).sum())

    def finish(self, cells: Iterable[str]) -> dict[str, FreeResult]:
        """Of the cells that a free run paired anything of."""
        seen = {name: self._cells[name] for name in cells if name in self._cells and self._cells[name].positions}
        return {name: self._result(name, mine) for name, mine in seen.items()}

    def _result(self, name: str, mine: _Cell) -> FreeResult:
        numbers = self._parted.numbers(name)
        return FreeResult(
            traces=mine.traces,
            positions=mine.positions,
            bits_differ=mine.bits_differ,
            branches=numbers["diverged_branches"]["all"],
            diverged=numbers["diverged_branches"]["argmax"],
            first_divergence=numbers["first_divergence"]["argmax"],
        )
