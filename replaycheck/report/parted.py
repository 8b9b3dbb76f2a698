"""Survival of the first other top-1 token, cold against warm: Kaplan-Meier with band, ticks and numbers at risk.

One case a trace and one comparison a pool dtype, as the band takes cases as independent (docs/statistics.md). The clock
starts at the first restore: before it, both arms run the same code. The sentence has the restricted mean, up to one horizon
for all pools, and which pool parts first, one vote a trace: curves of the same traces can't be compared by their bands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.compare.columns import flags, floats, names
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.result import CellResult
from replaycheck.stats.signs import first_to_part
from replaycheck.stats.survival import OFFSETS, Survival, first_of_traces, survival

from .figure import SERIES, Chart, sheet
from .shown import short
from .streams import forced
from .text import number, plural

__all__ = ["COLUMNS", "Parted", "curves", "survival_chart"]

COLUMNS = ("cell", "trace", "experiment", "kind", "offset_from_restore", "censored")

TICKS = 4
"""Offsets at which numbers at risk are printed: as many as fit under a narrow chart."""


Cases = list[tuple[NDArray[np.int64], NDArray[np.bool_], list[str]]]
"""Of each block: offsets, whether censored, and traces."""


@dataclass(frozen=True)
class Parted:
    """The comparison ``cell`` with its curve, and the cases behind it, one a trace."""

    cell: CellResult
    curve: Survival
    traces: NDArray[np.str_]  # [n] ascending
    offset: NDArray[np.int64]  # [n] tokens from the first restore to the divergence, or to the end
    censored: NDArray[np.bool_]  # [n]


def curves(cells: Mapping[PoolDtype, CellResult], divergences: Iterable[pa.Table]) -> dict[PoolDtype, Parted]:
    """The curve of each cell in which a clock started, from DIVERGENCES blocks with :data:`COLUMNS`."""
    cases: dict[str, Cases] = {}
    wanted = {cell.name for cell in cells.values()}
    for block in map(forced, divergences):
        cell, kind, trace = (names(block[name]) for name in ("cell", "kind", "trace"))
        offset, censored = floats(block["offset_from_restore"]), flags(block["censored"])
        known = (kind.code == kind.named("argmax")) & np.isfinite(offset)
        for name in wanted & set(cell.of):
            mine = np.flatnonzero(known & (cell.code == cell.named(name)))
            of = [trace.of[code] for code in trace.code[mine]]
            cases.setdefault(name, []).append((offset[mine].astype(np.int64).clip(1), censored[mine], of))
    found = {pool: _parted(cell, cases.get(cell.name, [])) for pool, cell in cells.items()}
    return {pool: each for pool, each in found.items() if each is not None}


def _parted(cell: CellResult, parts: Cases) -> Parted | None:
    """None without any branch whose clock started."""
    names_ = [name for *_, of in parts for name in of]
    if not names_:
        return None
    offsets, censored = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
    traces, code = np.unique(names_, return_inverse=True)
    first, ended = first_of_traces(offsets, censored, code)
    return Parted(cell, survival(first, ended), traces, first, ended)


def survival_chart(found: Mapping[PoolDtype, Parted]) -> Chart:
    """One step curve a pool dtype, a vertical tick for each censored trace."""
    title = "Traces that still say the same, cold vs warm"
    if not found:
        return Chart(title, "", None, "No branch was restored in a cold-against-warm comparison, so no clock started.")
    if all(each.censored.all() for each in found.values()):
        n = sum(len(each.traces) for each in found.values())
        return Chart(
            title, "", None, f"The top-1 tokens agree to the end of all {n:,} traces shown (one a pool and trace)."
        )
    with sheet(title, _axis(found), "traces still alike, %", 2.9 + 0.15 * len(found)) as drawing:
        last = max(int(each.curve.tokens[-1]) for each in found.values())
        for at, (pool, each) in enumerate(found.items()):
            _draw(drawing.axes, each.curve, at, pool, last)
        drawing.axes.set(xscale="log", ylim=(0, 103), xlim=(1, last * 1.1))
        _at_risk(drawing.axes, [each.curve for each in found.values()], last)
        drawing.axes.legend(loc="lower left")
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


def _see(found: Mapping[PoolDtype, Parted]) -> str:
    """A line what to see, one a pool, one of which parts sooner, and which comparisons these are."""
    horizon = _horizon(each.curve for each in found.values())
    cells = ", ".join(dict.fromkeys(short(each.cell.name) for each in found.values()))
    lines = [
        "Higher is better: a curve falls where a trace gets another most likely token for the first time; ticks are traces "
        "that end before. The band is the 95 % log-log interval.",
        *(f"{pool}: {_said(each.curve, horizon)}." for pool, each in found.items()),
        *_votes(found),
        f"Of each pool the comparison with the largest tail: {cells}.",
    ]
    return "\n".join(lines)


def _horizon(found: Iterable[Survival]) -> int:
    """One for all pools, so that their means can be compared: the longest of OFFSETS that all were observed for, else
    the last token of the one that was observed shortest."""
    shortest = min(int(each.tokens[-1]) for each in found)
    return max((offset for offset in OFFSETS if offset <= shortest), default=shortest)


def _said(curve: Survival, horizon: int) -> str:
    """S(256) and S(1024), as far as a trace was observed that long, and the mean up to ``horizon``."""
    shares = [(offset, curve.share_at(offset)) for offset in OFFSETS]
    told = [
        f"S({offset}) = {number(share.value)} [{number(share.low)}, {number(share.high)}]"
        for offset, share in shares
        if share.value is not None
    ]
    parted = f"{plural(int(curve.events.sum()), 'trace')} of {int(curve.at_risk[0]):,} parted"
    if curve.at(horizon) == 1:  # Greenwood's interval has no width then; that of S has
        return "; ".join([parted, *told])
    mean = curve.restricted_mean_estimate(horizon)
    alike = f"{number(mean.value)} [{number(mean.low)}, {number(mean.high)}] of the first {horizon:,} tokens alike"
    return "; ".join([parted, *told, f"on average {alike}"])


def _votes(found: Mapping[PoolDtype, Parted]) -> Iterator[str]:
    """Each pool against the first (fp32, where the run has it): which of the two parts sooner from its cold arm.

    Only where the pool is all that differs.
    """
    (first, base), *others = found.items()
    for pool, each in others:
        if _stem(each) != _stem(base):
            continue
        _, mine, theirs = np.intersect1d(base.traces, each.traces, assume_unique=True, return_indices=True)
        test = first_to_part(base.offset[mine], base.censored[mine], each.offset[theirs], each.censored[theirs])
        if test.n:
            untold = test.ties + test.undecided
            rest = f"; {untold:,} more don't tell" if untold else ""
            yield (
                f"With the {pool} pool {test.b:,} of {plural(test.n, 'trace')} parted sooner than with {first} "
                f"(sign test, p = {number(test.p)}){rest}."
            )


def _stem(of: Parted) -> str:
    """The kernels, answers and checkpoints of its comparison."""
    return short(of.cell.name).rpartition("/")[0]
