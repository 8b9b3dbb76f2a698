"""Differences that only storing and restoring explains: what a gate may say of a subject that decides its own hits.

Each warm arm is judged in the cell that isolates the state best: exact, else state (the same cuts), else cold against warm.
In the last one a difference may be the grid effect, which is legitimate, so it decides nothing; no difference does.

A warm arm whose requests were in flight at once is held against warm, one at a time: see :mod:`.beside`.

Where a subject says tokens and no log-probabilities at all, other tokens have no size: see :mod:`.unsized`.
"""

from __future__ import annotations

from dataclasses import replace

from replaycheck.schema.arm import Effect
from replaycheck.schema.floor import FloorKind
from replaycheck.schema.gate import Gate
from replaycheck.schema.result import CellResult

from . import beside
from .bounds import Bound, floor_of, told
from .evidence import Evidence
from .measured import Measured, counted
from .scoped import cells_of, fewest_traces, why_vacuous
from .unsized import by_token_alone

__all__ = ["unexplained_differences"]

ISOLATES = (Effect.EXACT, Effect.STATE, Effect.TOGETHER, Effect.TOTAL)
"""From the cell that shows storing and restoring alone to the one that mixes it with other cuts."""

MIXED = (
    "without a split arm other cuts, which are legitimate, can't be told from the state; let the server cut its prefill at "
    "every cache block and say so (--subject-option grid=block)"
)


def unexplained_differences(evidence: Evidence, gate: Gate) -> Measured:
    """Positions that differ, of those that the subject said something about."""
    cells = _best(cells_of(evidence, gate.scope, ISOLATES))
    # A NaN beside a number counts in both; a NaN twice is no agreement either. Another token is a difference without a size.
    events = {cell.name: max(cell.bits_differ, cell.not_finite) + cell.unsized_flips for cell in cells}
    events |= {cell.name: 0 for cell in cells if beside.by_batches(evidence, cell)}
    positions = sum(cell.positions - cell.missing for cell in cells)
    if not positions and any(cell.unsized for cell in cells) and not why_vacuous(cells):
        return by_token_alone(cells, floor_of(evidence, FloorKind.RUN, cells[0]), MIXED)
    vacuous = why_vacuous(cells) or ("" if positions else "the subject said nothing about any position")
    found = counted(events, positions, "positions", "differ", fewest_traces(cells), vacuous)
    if not positions:
        return found
    bound = _bound(evidence, gate, cells[0], positions)
    found = replace(found, bound=replace(bound, derivation=bound.derivation + beside.said(evidence, cells)))
    why = {cell.name: _undecided(evidence, cell) for cell in cells if events[cell.name]}
    if not all(why.values()) or not _over(found):
        return found
    return replace(found, bound=Bound(None, "; ".join(dict.fromkeys(why.values()))), decided="inconclusive")


def _undecided(evidence: Evidence, cell: CellResult) -> str:
    """Why a difference in this cell may be legitimate, though nobody can tell; "" if it isn't."""
    if cell.effect is Effect.TOGETHER:
        return "" if beside.measured(evidence) else beside.UNMEASURED
    return MIXED if cell.effect is Effect.TOTAL else ""


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
