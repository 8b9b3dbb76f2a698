"""Which comparisons are drawn one by one: of each pool dtype the one with the largest tail, so that every chart shows the
same and none hides the worst."""

from __future__ import annotations

from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.result import CellResult, Result

from .matrix import EFFECTS

__all__ = ["short", "user_effect", "worst_cells"]


def worst_cells(result: Result, effect: Effect) -> dict[PoolDtype, CellResult]:
    """Of each pool dtype the cell of ``effect`` with the largest p99 of |Δ log p|; of equal ones the first by name."""
    pool_of = {arm.name: arm.pool for arm in result.arms}
    worst: dict[PoolDtype, CellResult] = {}
    for cell in sorted(result.cells, key=lambda cell: (-_tail(cell), cell.name)):
        if cell.effect is effect and cell.positions and cell.candidate in pool_of:
            worst.setdefault(pool_of[cell.candidate], cell)
    return {pool: worst[pool] for pool in PoolDtype if pool in worst}


def _tail(cell: CellResult) -> float:
    return cell.abs_dlogp.get("p99", 0.0)


def user_effect(result: Result) -> Effect | None:
    """What a user of a cache sees (total) where the run has it, else the first effect that it has."""
    present = {cell.effect for cell in result.cells if cell.positions}
    return next((effect for effect in EFFECTS if effect in present), None)


def short(cell: str) -> str:
    """A cell's name without its effect: the kernels, answers, checkpoints and pool of its candidate."""
    return cell.partition("/")[2] or cell
