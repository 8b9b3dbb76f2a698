"""What every metric over cells says of its evidence: how many traces, and why it may be vacuous."""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.schema.arm import Effect
from replaycheck.schema.gate import Scope
from replaycheck.schema.result import CellResult

from .evidence import Evidence

__all__ = ["cells_of", "fewest_traces", "why_vacuous"]


def cells_of(evidence: Evidence, scope: Scope, effects: tuple[Effect, ...]) -> tuple[CellResult, ...]:
    """The scope's cells of some effects."""
    return tuple(cell for cell in evidence.cells_in(scope) if cell.effect in effects)


def fewest_traces(cells: Sequence[CellResult]) -> int:
    """Of the cell that has the fewest: the gate speaks about each of them."""
    return min((cell.traces for cell in cells), default=0)


def why_vacuous(cells: Sequence[CellResult]) -> str:
    """Why a gate over these cells proves nothing; one empty cell is enough, since the gate speaks about each."""
    empty = [cell for cell in cells if cell.vacuous]
    if empty:
        return f"{len(empty)} of {len(cells)} cells are vacuous; {empty[0].name}: {empty[0].why_vacuous}"
    return "" if cells else "the suite has no cell of this scope"
