"""The matrix in ten lines: all cells of a pool dtype and effect together, for the terminal and the summary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.result import CellResult, Result

from .matrix import EFFECTS, matrix
from .text import number, share

__all__ = ["PAIRS", "Line", "rollup"]

#: The two compilers of each effect, in words that need no glossary.
PAIRS = {
    Effect.TOTAL: "cold, warm",
    Effect.GRID: "cold, split",
    Effect.STATE: "split, warm",
    Effect.EXACT: "split-rounded, warm",
    Effect.PARALLEL: "warm, warm over ranks",
    Effect.ACTIVATION: "cold, cold",
    Effect.TOGETHER: "warm, warm beside others",
}


@dataclass(frozen=True)
class Line:
    """Texts of one line. Sizes are the largest over its cells."""

    mark: str
    pool: str
    effect: str
    pair: str
    cells: str
    differ: str
    p99: str
    ratio: str
    flips: str
    parted: str

    HEADINGS = ("", "pool", "effect", "compares", "cells", "positions differ", "p99", "×F_num", "flips", "parted")

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.mark, self.pool, self.effect, self.pair, self.cells, self.differ, self.p99, self.ratio, self.flips,
                self.parted)  # fmt: skip


def rollup(result: Result) -> list[Line]:
    """One line a pool dtype and effect that the result has."""
    arms = {arm.name: arm.pool for arm in result.arms}
    groups: dict[tuple[PoolDtype | None, Effect], list[CellResult]] = {}
    for cell in result.cells:
        groups.setdefault((arms.get(cell.candidate), cell.effect), []).append(cell)
    marks = {entry.cell: entry.mark for row in matrix(result).rows for _, entry in row.cells if entry is not None}
    keys = [(pool, effect) for pool in PoolDtype for effect in EFFECTS if (pool, effect) in groups]
    ratios = {cell.name: _ratio(result, cell) for cell in result.cells}
    return [_line(pool, effect, groups[pool, effect], marks, ratios) for pool, effect in keys]


def _line(
    pool: PoolDtype, effect: Effect, cells: list[CellResult], marks: dict[str, str], ratios: dict[str, float | None]
) -> Line:
    of = {marks[cell.name] for cell in cells}
    positions = sum(cell.positions for cell in cells)
    # A token that differs differs in bits, too, though its log-probability wasn't said.
    differ = sum(cell.bits_differ + cell.unsized_flips for cell in cells)
    return Line(
        mark="FAIL" if "fail" in of else "none" if "vacuous" in of else "same" if of == {"same"} else "",
        pool=pool.value,
        effect=effect.value,
        pair=PAIRS[effect],
        cells=number(len(cells)),
        differ=f"{share(differ, positions)} of {positions:,}",
        p99=number(_largest(cell.abs_dlogp.get("p99") for cell in cells)),
        ratio=number(_largest(ratios[cell.name] for cell in cells)),
        flips=number(sum(cell.flips for cell in cells)),
        parted=_parted(cells),
    )


def _ratio(result: Result, cell: CellResult) -> float | None:
    """p99 of |Δ log p| over that of F_num, for cells that it is the floor of; None without either."""
    arm = next((arm for arm in result.arms if arm.name == cell.candidate), None)
    if arm is None or result.floor is None or cell.effect not in (Effect.TOTAL, Effect.STATE):
        return None
    floor = result.floor.num_for(arm.history, arm.tail, arm.answers, arm.policy)
    p99, of = cell.abs_dlogp.get("p99"), floor.abs_dlogp.get("p99") if floor else None
    return p99 / of if p99 is not None and of else None


def _parted(cells: list[CellResult]) -> str:
    """Branches that got another top-1 token, of those compared, and the fewest tokens since the first restore of one."""
    every = sum(cell.diverged_branches.get("all", 0) for cell in cells)
    parted = sum(cell.diverged_branches.get("argmax", 0) for cell in cells)
    first = min((at for cell in cells if (at := cell.first_divergence.get("argmax")) is not None), default=None)
    since = "" if first is None else f" from {first:,}"
    return f"{parted:,}/{every:,}{since}" if every else "–"


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
