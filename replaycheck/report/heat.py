"""The heat map of state errors: a row a restore, a column a layer, of the comparison whose restores are furthest off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from replaycheck.compare.columns import floats, integers, names
from replaycheck.schema.arm import Effect
from replaycheck.schema.result import CellResult, Result

from .budget import Budget, Kept, keep
from .matrix import level
from .text import number

__all__ = ["COLUMNS", "Heat", "HeatRow", "heat"]

COLUMNS = ("cell", "trace", "restore", "layer", "rel_error", "one_cast_error", "label")


@dataclass(frozen=True)
class HeatRow:
    """``errors``: of each layer the text, its step on the ramp and the number; largest over heads. None: not stored.

    The ramp of the matrix does: one cast to fp16 costs 2e-4, one to bf16 1.7e-3, and another state is over its last step.
    """

    trace: str
    restore: str
    label: str
    errors: tuple[tuple[str, int, float] | None, ...]
    worst: float
    casts: str  # worst error in multiples of one direct cast


@dataclass(frozen=True)
class Heat:
    """State errors of one cell, layer by restore: the rows that a report has room for."""

    cell: str
    effect: str
    layers: tuple[int, ...]
    rows: Kept[HeatRow]
    exact: int = 0  # restores without any error, which aren't among the rows
    why_empty: str = ""

    @property
    def cast(self) -> bool:
        """Whether one cast costs anything, so that errors can be multiples of it."""
        return any(row.casts != "–" for row in self.rows.all)


@dataclass
class _Restore:
    label: str
    errors: dict[int, float]
    cast: float = 0.0


def heat(result: Result, restores: Iterable[pa.Table], budget: Budget) -> Heat:
    """Of the exact cell that is furthest off, if one is off at all; else of the state cell that is."""
    cell = _worst(result)
    if cell is None:
        return Heat("", "", (), Kept((), (), 0), why_empty="No restored state differs from the live one, in any layer.")
    found = _gathered(cell.name, restores)
    layers = tuple(sorted({layer for each in found.values() for layer in each.errors}))
    rows = [_row(*key, each, layers) for key, each in found.items() if any(each.errors.values())]
    few = replace(budget, worst=budget.worst // 5, typical=budget.typical // 3)
    return Heat(cell.name, cell.effect, layers, keep(rows, lambda row: (row.worst,), few), len(found) - len(rows))


def _worst(result: Result) -> CellResult | None:
    """What must be equal comes first."""
    off = [cell for cell in result.cells if cell.effect in (Effect.EXACT, Effect.STATE) and cell.state_rel_error]
    rank = {Effect.EXACT: 1, Effect.STATE: 0}
    return max(off, key=lambda cell: (rank[cell.effect], cell.state_rel_error or 0.0), default=None)


def _gathered(name: str, restores: Iterable[pa.Table]) -> dict[tuple[str, str], _Restore]:
    found: dict[tuple[str, str], _Restore] = {}
    for block in restores:
        of = names(block["cell"])
        rows = block.take(np.flatnonzero(of.code == of.named(name)))
        trace, restore, label = (names(rows[column]) for column in ("trace", "restore", "label"))
        error, cast, layer = floats(rows["rel_error"]), floats(rows["one_cast_error"]), integers(rows["layer"])
        for at in np.flatnonzero(~np.isnan(error)):
            key = trace.of[trace.code[at]], restore.of[restore.code[at]]
            into = found.setdefault(key, _Restore(label.of[label.code[at]], {}))
            number_ = int(layer[at])
            into.errors[number_] = max(into.errors.get(number_, 0.0), float(error[at]))
            into.cast = max(into.cast, float(np.nan_to_num(cast[at])))
    return found


def _row(trace: str, restore: str, each: _Restore, layers: tuple[int, ...]) -> HeatRow:
    worst = max(each.errors.values())
    errors = tuple(_entry(each.errors[layer]) if layer in each.errors else None for layer in layers)
    casts = f"{number(worst / each.cast)} ×" if each.cast else "–"
    return HeatRow(trace, restore, each.label, errors, worst, casts)


def _entry(error: float) -> tuple[str, int, float]:
    return number(error), level(error), error
