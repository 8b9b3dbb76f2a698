"""The floor that a run measures itself: from the controls among its arms, and from a few cold repeats."""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.schema.arm import Cell, Compiler, Effect
from replaycheck.schema.floor import Control, FloorKind, Floors, Measure

from .controls import Pairing, with_changes

__all__ = ["own_floors", "state_cells"]

_WHY_NOT = {
    FloorKind.RUN: "F_run: no gate reads it, or the suite has no cold arm that could be repeated",
    FloorKind.NUM: "F_num: the suite compares cold with split in no cell (effect grid)",
    FloorKind.RND: "F_rnd: the suite has no split and split-rounded arm of one pool (effects state and exact)",
}


def state_cells(pairings: Sequence[Pairing], cells: Sequence[Cell]) -> tuple[frozenset[str], ...]:
    """By pairing, the cells whose RESTORES rows say what one cast to the pool dtype costs: split against warm."""
    return tuple(frozenset(_of(pairing, cells)) for pairing in pairings)


def _of(pairing: Pairing, cells: Sequence[Cell]) -> list[str]:
    if pairing.control is not Control.ROUNDED:
        return []
    candidates = {pairing.candidate.name, with_changes(pairing.candidate, compiler=Compiler.WARM).name}
    return [cell.name for cell in cells if cell.effect is Effect.STATE and cell.candidate in candidates]


def own_floors(repeats: Sequence[Measure], controls: Sequence[Measure]) -> Floors:
    """What a run measured; what it couldn't is named with the reason."""
    measures = (*repeats, *controls)
    seen = {measure.kind for measure in measures if measure.positions}
    return Floors(
        origin="own",
        measures=measures,
        not_measured=tuple(why for kind, why in _WHY_NOT.items() if kind not in seen),
    )
