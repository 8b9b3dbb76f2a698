"""The boundary-aligned curve: |Δ log p| averaged round restores, of the largest comparison of each pool dtype, beside cold
against split, which makes the same cuts and stores nothing.

Before its first restore warm runs cold's code, so a step at a restore alone proves nothing: other cuts make one, too. A
fault of the state is what rises above that control and decays (docs/statistics.md, Where it begins).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.compare.columns import floats, integers, names
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.result import CellResult, Result
from replaycheck.stats.alignment import AFTER, BEFORE, FIRST, LAST, Aligned, aligned_average

from .begins import Begins, Key, Path, begins, begins_said
from .figure import INK, SERIES, Chart, sheet
from .shown import short, worst_cells
from .streams import forced
from .text import number, plural

__all__ = ["COLUMNS", "Curve", "aligned", "aligned_chart"]

COLUMNS = ("cell", "experiment", "trace", "branch", "position", "dlogp", "offset_from_restore")

LONGEST = 1 << 20
"""Positions of a path that are looked at: 8 MB a branch. What lies beyond isn't in the curve."""

BIN = 8
"""Tokens that a drawn point stands for: with a few paths an offset, single near ties would be all one sees."""

Wide = NDArray[np.float64]

CONTROL = "other cuts only"

REDUCED = "In a reduced pool this may be its rounding alone, where that is larger than what other cuts make."


@dataclass(frozen=True)
class Curve:
    """``begins``: where the paths rise above the control; None of the control itself, and where it can't tell."""

    label: str
    cell: str
    found: Aligned
    begins: Begins | None = None


def aligned(result: Result, pairs: Iterable[pa.Table]) -> list[Curve]:
    """One curve a pool dtype of cold against warm, the control last; from PAIRS blocks with :data:`COLUMNS`."""
    cells = worst_cells(result, Effect.TOTAL)
    control = _control(result, next(iter(cells.values()), None))
    labels = {cell.name: str(pool) for pool, cell in cells.items()}
    paths: dict[str, dict[Key, Path]] = {name: {} for name in [*labels, *([control] if control else [])]}
    for block in map(forced, pairs):
        of = names(block["cell"])
        for name in paths.keys() & set(of.of):
            paths[name].update(_paths(block.take(np.flatnonzero(of.code == of.named(name)))))
    others = paths[control] if control else {}
    curves = [
        _curve(label, name, paths[name], paths[name], begins(paths[name], others)) for name, label in labels.items()
    ]
    if control:
        curves.append(_curve(CONTROL, control, others, paths[next(iter(labels))]))
    return [curve for curve in curves if curve.found.traces.any()]


def _control(result: Result, cell: CellResult | None) -> str | None:
    """Cold against split with the kernels, answers and checkpoints of ``cell``."""
    if cell is None:
        return None
    stem = short(cell.name).rpartition("/")[0]
    same = (each for each in result.cells if each.effect is Effect.GRID and short(each.name).rpartition("/")[0] == stem)
    return next((each.name for each in same if each.positions), None)


def _paths(rows: pa.Table) -> dict[Key, Path]:
    trace, branch = names(rows["trace"]), integers(rows["branch"])
    position, size, offset = (
        integers(rows["position"]),
        np.abs(floats(rows["dlogp"])),
        floats(rows["offset_from_restore"]),
    )
    paths: dict[Key, Path] = {}
    for key in sorted(set(zip(trace.code.tolist(), branch.tolist(), strict=True))):
        mine = (trace.code == key[0]) & (branch == key[1]) & (position < LONGEST)
        restores = np.unique((position - offset)[mine & np.isfinite(offset)]).astype(np.int64)
        paths[trace.of[key[0]], key[1]] = position[mine], size[mine], restores
    return paths


def _curve(
    label: str, cell: str, paths: Mapping[Key, Path], at: Mapping[Key, Path], rises: Begins | None = None
) -> Curve:
    """``at``: the paths whose restores the curve is aligned on; a control has none of its own."""
    shared = [key for key in paths if key in at]
    found = aligned_average([_dense(paths[key]) for key in shared], [at[key][2] for key in shared])
    return Curve(label, cell, found, rises)


def _dense(path: Path) -> Wide:
    position, size, _ = path
    values = np.full(int(position.max(initial=-1)) + 1, np.nan)
    values[position] = size
    return values


def aligned_chart(curves: list[Curve]) -> Chart:
    """On a linear axis from 0, so that noise looks as small as it is."""
    title = "|Δ log-probability| round restores, cold vs warm"
    if not curves:
        return Chart(title, "", None, "No restore lies near a scored position of a cold-against-warm comparison.")
    if not any(np.nan_to_num(curve.found.mean).any() for curve in curves):
        return Chart(title, "", None, "Exactly 0 everywhere: no position near a restore differs, with any pool.")
    with sheet(title, f"tokens from the restore (means over {BIN})", "mean |Δ log p|, nat", 3.2) as drawing:
        for (colour, dash), curve in zip(SERIES, curves, strict=False):
            x, y = _binned(curve.found, _last(curves))
            n = plural(int(curve.found.traces.max()), "path")
            drawing.axes.plot(x, y, color=colour, ls=dash, lw=1.5, marker="o", ms=2.5, label=f"{curve.label} ({n})")
        drawing.axes.axvline(0, color=INK, lw=1)
        drawing.axes.set(xlim=(FIRST, _last(curves)), ylim=(0, None))
        drawing.axes.figure.legend(loc="outside upper center", ncols=2)
    return Chart(title, _see(curves), drawing.svg)


def _binned(of: Aligned, last: int) -> tuple[Wide, Wide]:
    """Middles of the bins and the means in them, weighted by the paths that were scored there; NaN breaks the line.

    Bins whose middle lies beyond ``last`` are left out: the line to them would be cut at the frame.
    """
    edges = of.offset[0] + BIN * ((of.offset - of.offset[0]) // BIN)
    starts = np.unique(edges)
    weight = np.array([of.traces[edges == start].sum() for start in starts], np.float64)
    total = np.array([np.nansum((of.mean * of.traces)[edges == start]) for start in starts])
    middles = starts + (BIN - 1) / 2
    inside = middles <= last
    return middles[inside], np.where(weight > 0, total / np.maximum(weight, 1), np.nan)[inside]


def _last(curves: list[Curve]) -> int:
    """The axis ends where the last scored position is."""
    return min(LAST, max(int(each.found.offset[each.found.traces > 0].max()) for each in curves) + 4)


def _see(curves: list[Curve]) -> str:
    """A line what to see, one of the step at 0, one a pool of where it begins, and which comparisons these are."""
    controlled = any(curve.label == CONTROL for curve in curves)
    look = (
        "A fault of the restored state stands above the curve of other cuts right after 0 and decays as the model forgets."
        if controlled
        else "A fault of the restored state is a step up at 0 that decays as the model forgets; other cuts make a step, too."
    )
    starts = "; ".join(f"{curve.label} {begins_said(curve.begins)}" for curve in curves if curve.begins is not None)
    cells = ", ".join(dict.fromkeys(short(curve.cell) for curve in curves))
    lines = [
        look,
        _steps(curves),
        f"Rises above other cuts (cumulative sum): {starts}. Smaller faults show only in exact cells."
        if starts
        else "",
        REDUCED
        if any(curve.begins and curve.begins.where and curve.label != PoolDtype.FP32 for curve in curves)
        else "",
        f"Of each pool the comparison with the largest tail: {cells}.",
    ]
    return "\n".join(filter(None, lines))


def _steps(curves: list[Curve]) -> str:
    if all(curve.found.contrast is None for curve in curves):
        return "No restore has scored tokens on both sides, so its step isn't tested."
    steps = "; ".join(f"{curve.label} {_step(curve.found)}" for curve in curves)
    used = " / ".join(dict.fromkeys(_used(curve.found) for curve in curves))
    return f"The step: mean of {AFTER} tokens after less {BEFORE} before, over {used}; p against random positions. {steps}."


def _step(of: Aligned) -> str:
    return "–" if of.contrast is None else f"{number(of.contrast)} nat, p = {number(of.p)}"


def _used(of: Aligned) -> str:
    return f"{of.restores:,} of {plural(of.restores + of.unused, 'restore')}"
