"""Survival of the first other top-1 token, cold against warm: Kaplan-Meier with band, ticks and numbers at risk.

One case a trace and one comparison a pool dtype, as the band takes cases as independent (statistics.md C.4). The clock
starts at the first restore: before it, both arms run the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.compare.columns import flags, floats, names
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.result import CellResult
from replaycheck.stats.survival import OFFSETS, Survival, first_of_traces, survival

from .figure import SERIES, Chart, sheet
from .shown import short
from .streams import forced
from .text import number, plural

__all__ = ["COLUMNS", "curves", "survival_chart"]

COLUMNS = ("cell", "trace", "experiment", "kind", "offset_from_restore", "censored")

TICKS = 4
"""Offsets at which numbers at risk are printed: as many as fit under a narrow chart."""


def curves(
    cells: Mapping[PoolDtype, CellResult], divergences: Iterable[pa.Table]
) -> dict[PoolDtype, tuple[Survival, CellResult]]:
    """The curve of each cell in which a clock started, from DIVERGENCES blocks with :data:`COLUMNS`."""
    cases: dict[str, list[tuple[NDArray[np.int64], NDArray[np.bool_], list[str]]]] = {}
    wanted = {cell.name for cell in cells.values()}
    for block in map(forced, divergences):
        cell, kind, trace = (names(block[name]) for name in ("cell", "kind", "trace"))
        offset, censored = floats(block["offset_from_restore"]), flags(block["censored"])
        known = (kind.code == kind.named("argmax")) & np.isfinite(offset)
        for name in wanted & set(cell.of):
            mine = np.flatnonzero(known & (cell.code == cell.named(name)))
            of = [trace.of[code] for code in trace.code[mine]]
            cases.setdefault(name, []).append((offset[mine].astype(np.int64).clip(1), censored[mine], of))
    found = {pool: _curve(cases.get(cell.name, [])) for pool, cell in cells.items()}
    return {pool: (curve, cells[pool]) for pool, curve in found.items() if curve is not None}


def _curve(parts: list[tuple[NDArray[np.int64], NDArray[np.bool_], list[str]]]) -> Survival | None:
    """``parts``: offsets, censored flags and traces. None without any branch whose clock started."""
    traces = [name for *_, of in parts for name in of]
    if not traces:
        return None
    offsets, censored = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
    return survival(*first_of_traces(offsets, censored, np.unique(traces, return_inverse=True)[1]))


def survival_chart(found: Mapping[PoolDtype, tuple[Survival, CellResult]]) -> Chart:
    """One step curve a pool dtype, a vertical tick for each censored trace."""
    title = "Traces that still say the same, cold vs warm"
    if not found:
        return Chart(title, "", None, "No branch was restored in a cold-against-warm comparison, so no clock started.")
    parted = sum(int(curve.events.sum()) for curve, _ in found.values())
    if not parted:
        n = sum(int(curve.at_risk[0]) for curve, _ in found.values())
        return Chart(
            title, "", None, f"The top-1 tokens agree to the end of all {n:,} traces shown (one a pool and trace)."
        )
    with sheet(title, _axis(found), "traces still alike, %", (4.8, 3.1 + 0.15 * len(found))) as drawing:
        last = max(int(curve.tokens[-1]) for curve, _ in found.values())
        for at, (pool, (curve, _)) in enumerate(found.items()):
            _draw(drawing.axes, curve, at, pool, last)
        drawing.axes.set(xscale="log", ylim=(0, 103), xlim=(1, last * 1.1))
        _at_risk(drawing.axes, [curve for curve, _ in found.values()], last)
        drawing.axes.legend(loc="lower left", fontsize=8)
    return Chart(title, _see(found), drawing.svg)


def _draw(axes: Any, curve: Survival, at: int, pool: PoolDtype, last: int) -> None:
    colour, dash = SERIES[at]
    x = np.concatenate([[1], curve.tokens, [last]])
    y = 100 * np.concatenate([[1.0], curve.share, curve.share[-1:]])
    # The band isn't defined where the share is 1 or 0; it is drawn shut there.
    low, high = (np.where(np.isnan(side), curve.share, side) for side in (curve.low, curve.high))
    low, high = (100 * np.concatenate([[1.0], side, side[-1:]]) for side in (low, high))
    axes.fill_between(x, low, high, step="post", color=colour, alpha=0.13, lw=0)
    axes.step(x, y, where="post", color=colour, ls=dash, lw=1.6, label=f"{pool} (n = {int(curve.at_risk[0]):,} traces)")
    axes.plot(curve.censored, [100 * curve.at(int(each)) for each in curve.censored], "|", color=colour, ms=6, mew=1)


def _axis(found: Mapping[PoolDtype, object]) -> str:
    return f"tokens since the first restore\nunder each: traces at risk ({', '.join(found)})"


def _at_risk(axes: Any, found: list[Survival], last: int) -> None:
    """Numbers at risk are lines of the tick labels, so that the layout keeps room for them."""
    where = np.unique(np.geomspace(1, last, TICKS).round().astype(int)).tolist()
    lines = [[f"{at:,}", *(f"{curve.at_risk_at(at):,}" for curve in found)] for at in where]
    axes.set_xticks(where, labels=["\n".join(each) for each in lines])


def _see(found: Mapping[PoolDtype, tuple[Survival, CellResult]]) -> str:
    said = "; ".join(f"{pool}: {_said(curve)} ({short(cell.name)})" for pool, (curve, cell) in found.items())
    return (
        "Higher is better: a curve falls where a trace gets another most likely token for the first time; ticks are traces "
        f"that end before. The band is the 95 % log-log interval. {said}. Of each pool the comparison with the largest tail."
    )


def _said(curve: Survival) -> str:
    """S(256) and S(1024), as far as a trace was observed that long."""
    shares = [(offset, curve.share_at(offset)) for offset in OFFSETS]
    told = [
        f"S({offset}) = {number(share.value)} [{number(share.low)}, {number(share.high)}]"
        for offset, share in shares
        if share.value is not None
    ]
    parted = f"{plural(int(curve.events.sum()), 'trace')} of {int(curve.at_risk[0]):,} parted"
    return ", ".join([parted, *told])
