"""From the parts of a run to one CellResult a cell, with memory for sums only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from replaycheck.schema.arm import Cell, Compiler
from replaycheck.schema.result import ArmResult, CellResult

from .cell_sums import CellSums
from .divergence import DivergenceSums, divergences
from .free_sums import FreeSums
from .restore_sums import RestoreSums
from .spill import Spill

__all__ = ["Summariser"]


class Summariser:
    """Adds up parts; then gives the results of ``cells``, in their order."""

    def __init__(self, cells: Sequence[Cell], spill: Spill) -> None:
        self._cells, self._spill = tuple(cells), spill
        self._positions = CellSums([cell.name for cell in cells], spill)
        self._divergences = DivergenceSums()
        self._free = FreeSums()
        self.restores = RestoreSums(cells)

    def add(self, part: str, pairs: pa.Table, observations: pa.Table, restores: pa.Table) -> None:
        """The tables of one part, rows in key order; ``part`` names it in errors."""
        self._positions.add(pairs, part)
        self.restores.add(restores)
        parted = divergences(pairs, observations, self._cells)
        self._divergences.add(parted)
        self._free.add(pairs, parted)
        self._spill.add_parted(parted)

    def finish(self, arms: Mapping[str, ArmResult]) -> tuple[CellResult, ...]:
        """``arms``: by name, those of every cell."""
        positions = dict(self._positions.numbers())
        free = self._free.finish(cell.name for cell in self._cells)
        found = (self._cell(cell, positions[cell.name], arms) for cell in self._cells)
        return tuple(cell.model_copy(update={"free": free.get(cell.name)}) for cell in found)

    def _cell(self, cell: Cell, positions: Mapping[str, Any], arms: Mapping[str, ArmResult]) -> CellResult:
        why = _why_vacuous(cell, positions["positions"], arms)
        return CellResult(
            name=cell.name,
            effect=cell.effect,
            reference=cell.reference,
            candidate=cell.candidate,
            vacuous=bool(why),
            why_vacuous=why,
            **positions,
            **self._divergences.numbers(cell.name),
            **self.restores.numbers(cell.name),
        )


def _why_vacuous(cell: Cell, positions: int, arms: Mapping[str, ArmResult]) -> str:
    """A warm arm without a proven hit, or no position at all."""
    for name in (cell.reference, cell.candidate):
        if arms[name].compiler is Compiler.WARM and not arms[name].proven_hits:
            return f"the arm {name} restored nothing that it could prove"
    return "" if positions else "no position was compared"
