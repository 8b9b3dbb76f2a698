"""The error of a restored state in units of one rounding: measured over F_rnd, which is computed from the live state.

1 is one direct cast to the pool dtype, 1.5 a second rounding. Only the model's first recurrent layer is
read: its inputs depend on tokens alone, so nothing but storing and restoring can move its state. Deeper layers see what
earlier roundings did to their inputs: in clean runs of the shipped model their ratio reaches 14, that of the first 9.8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.compare.columns import floats, integers, names
from replaycheck.compare.restores import LARGEST
from replaycheck.schema.gate import Gate
from replaycheck.schema.result import CellResult, Estimate

from .bounds import Bound
from .evidence import Evidence
from .measured import CellNumber, Measured, worst_cell
from .scoped import fewest_traces, why_vacuous

__all__ = ["state_error"]

COLUMNS = ("cell", "trace", "restore", "layer", "head", "rel_error", "one_cast_error")


@dataclass
class _Worst:
    layer: int
    states: int
    traces: set[str]
    ratio: float
    where: str


def state_error(evidence: Evidence, gate: Gate) -> Measured:
    """Largest ratio of a restored state's relative error to that of one cast of the live state to the pool dtype."""
    cells = evidence.cells_in(gate.scope)
    found = _worst_by_cell(evidence, {cell.name for cell in cells})
    numbers = (_number(gate, cell, found[cell.name]) for cell in cells if cell.name in found)
    return worst_cell(numbers, fewest_traces(cells), why_vacuous(cells))


def _number(gate: Gate, cell: CellResult, worst: _Worst) -> CellNumber:
    which = f"the worst of {worst.states:,} restored states of layer {worst.layer}"
    words = f"{which} has {_ratio(worst.ratio)} one cast's error"
    estimate = Estimate(
        value=worst.ratio,
        n=worst.states,
        method="largest over restores and heads of the first layer, over one cast's error",
    )
    return CellNumber(
        worst.ratio, f"{cell.name}, {worst.where}", len(worst.traces), Bound(gate.bound, f"the constant {gate.bound:g}"),
        lambda: estimate, words,
    )  # fmt: skip


def _ratio(ratio: float) -> str:
    return "beyond any multiple of" if ratio >= LARGEST else f"{ratio:.3g} times"


def _worst_by_cell(evidence: Evidence, wanted: set[str]) -> dict[str, _Worst]:
    found: dict[str, _Worst] = {}
    for block in evidence.tables.blocks("restores", COLUMNS):
        cell, trace, restore = (names(block[name]) for name in ("cell", "trace", "restore"))
        layer, head, ratio = integers(block["layer"]), integers(block["head"]), _ratios(block)
        for code, name in enumerate(cell.of):
            if name not in wanted:
                continue
            mine = np.flatnonzero(cell.code == code)
            mine = mine[layer[mine] == layer[mine].min()] if len(mine) else mine
            if len(mine):
                at = int(mine[np.argmax(ratio[mine])])
                where = f"trace {trace.of[trace.code[at]]}, restore {restore.of[restore.code[at]]}, head {head[at]}"
                traces = {trace.of[each] for each in np.unique(trace.code[mine])}
                _add(found, name, _Worst(int(layer[at]), len(mine), traces, float(ratio[at]), where))
    return found


def _add(found: dict[str, _Worst], cell: str, new: _Worst) -> None:
    old = found.get(cell)
    if old is None or new.layer < old.layer:
        found[cell] = new
    elif new.layer == old.layer:
        worse = new if new.ratio > old.ratio else old
        found[cell] = _Worst(old.layer, old.states + new.states, old.traces | new.traces, worse.ratio, worse.where)


def _ratios(block: pa.Table) -> NDArray[np.float64]:
    """No error is a ratio of 0, also where one cast costs nothing; any other error is then beyond all bounds."""
    error, one = floats(block["rel_error"]), floats(block["one_cast_error"])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error == 0, 0.0, np.nan_to_num(error / one, nan=LARGEST, posinf=LARGEST))
