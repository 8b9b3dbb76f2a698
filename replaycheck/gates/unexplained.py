"""Differences that only storing and restoring explains: what a gate may say of a subject that decides its own hits.

Each warm arm is judged in the cell that isolates the state best: exact, else state (the same cuts), else cold against warm.
In the last one a difference may be the grid effect, which is legitimate, so it decides nothing; no difference does.
"""

from __future__ import annotations

from dataclasses import replace

from replaycheck.schema.arm import Effect
from replaycheck.schema.floor import FloorKind
from replaycheck.schema.gate import Gate
from replaycheck.schema.result import CellResult

from .bounds import Bound, floor_of, told
from .evidence import Evidence
from .measured import Measured, counted
from .scoped import cells_of, fewest_traces, why_vacuous

__all__ = ["unexplained_differences"]

ISOLATES = (Effect.EXACT, Effect.STATE, Effect.TOTAL)
"""From the cell that shows storing and restoring alone to the one that mixes it with other cuts."""

MIXED = (
    "without a split arm other cuts, which are legitimate, can't be told from the state; let the server cut its prefill at "
    "every cache block and say so (--subject-option grid=block)"
)


def unexplained_differences(evidence: Evidence, gate: Gate) -> Measured:
    """Positions that differ, of those that the subject said something about."""
    cells = _best(cells_of(evidence, gate.scope, ISOLATES))
    # A NaN beside a number counts in both; a NaN twice is no agreement either.
    events = {cell.name: max(cell.bits_differ, cell.not_finite) for cell in cells}
    positions = sum(cell.positions - cell.missing for cell in cells)
    vacuous = why_vacuous(cells) or ("" if positions else "the subject said nothing about any position")
    found = counted(events, positions, "positions", "differ", fewest_traces(cells), vacuous)
    if not positions:
        return found
    found = replace(found, bound=_bound(evidence, gate, cells[0], positions))
    mixed = [cell.name for cell in cells if cell.effect is Effect.TOTAL and events[cell.name]]
    clear = any(events[cell.name] for cell in cells if cell.effect is not Effect.TOTAL)
    if not mixed or clear or not _over(found):
        return found
    return replace(found, bound=Bound(None, MIXED), decided="inconclusive")


def _best(cells: tuple[CellResult, ...]) -> tuple[CellResult, ...]:
    """Of each candidate, the cell that isolates the state best."""
    best: dict[str, CellResult] = {}
    for cell in sorted(cells, key=lambda each: ISOLATES.index(each.effect)):
        best.setdefault(cell.candidate, cell)
    return tuple(best.values())


def _over(found: Measured) -> bool:
    value = found.estimate.value
    return value is not None and found.bound is not None and found.bound.broken_by(value)


def _bound(evidence: Evidence, gate: Gate, cell: CellResult, positions: int) -> Bound:
    """The gate's constant; of a subject that isn't deterministic, as many as differ when it runs twice."""
    measure = floor_of(evidence, FloorKind.RUN, cell)
    allowed = gate.bound or 0.0
    if measure is None or measure.exact_zero:
        seen = "" if measure is None else f"; F_run is 0 (0 of {measure.positions:,} positions, {told(measure)})"
        return Bound(allowed, f"the constant {allowed:g}{seen}")
    rate = measure.bits_differ / measure.positions
    return Bound(max(allowed, rate * positions), f"F_run: {rate:.3g} of the positions differ ({told(measure)})")
