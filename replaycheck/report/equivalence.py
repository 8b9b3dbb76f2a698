"""Equivalence bars: how far each comparison moves outputs, in multiples of the floor, with the margin as a band.

A trace is one number, the root mean square of its Δ log p; the bar is the 90 % interval of their mean over the floor's,
paired by trace, exactly as the gate ``ratio-to-floor`` tests it (docs/statistics.md). The margin is the run's own gate's, or
that of the shipped operator gates. Beside it stand the votes of the traces, each of which moves more than its floor or less;
their p values are corrected for the number of comparisons, since a table is read for its smallest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log

import numpy as np

from replaycheck.gates.equivalence import paired
from replaycheck.gates.sums import CellTraces
from replaycheck.schema.arm import Effect
from replaycheck.schema.floor import FloorKind, Measure
from replaycheck.schema.result import ArmResult, CellResult, Result
from replaycheck.stats.equivalence import Equivalence, tost_ratio
from replaycheck.stats.many import benjamini_yekutieli
from replaycheck.stats.signs import SignTest, votes

from .matrix import EFFECTS
from .shown import short
from .text import number

__all__ = ["Bar", "Bars", "equivalence_bars"]

FACTOR = 1.5
"""The margin where the run has no gate of its own: that of the shipped operator gates, whose file says why."""

TICKS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
FEWEST_DOUBLINGS = 2
"""The axis reaches at least from 1/4 to 4, so that a margin of 1.5 is a fifth of it and not all."""

MOST = 60
"""Bars on the page; those left out are nearer to 1 and counted."""


@dataclass(frozen=True)
class Bar:
    """One comparison. Places are percentages of the axis; a value of 0 sits on its left edge."""

    cell: str
    label: str
    effect: Effect
    ratio: str
    interval: str
    n: int
    votes: str  # traces that move more than the floor, of those that move otherwise, and their adjusted p
    reading: str
    mark: str  # good, open, bad or soft
    at: float
    low: float
    high: float
    sort: float


@dataclass(frozen=True)
class Bars:
    """``same``: comparisons without any difference, which need no bar. ``band``: left and right edge of the margin, %."""

    bars: tuple[Bar, ...]
    same: int
    left_out: int
    factor: float
    band: tuple[float, float]
    one: float
    ticks: tuple[tuple[float, str], ...]
    why_empty: str = ""


def equivalence_bars(result: Result, sums: Mapping[str, CellTraces]) -> Bars:
    """Every cold-vs-warm and split-vs-warm comparison of ``result``; ``sums``: one number a trace, by cell."""
    factor = _factor(result)
    found = list(_found(result, sums, factor))
    moved = [each for each in found if each.ratio.estimate.value]
    adjusted = benjamini_yekutieli(np.array([each.votes.p for each in moved]))
    ranked = sorted(zip(moved, adjusted.tolist(), strict=True), key=lambda each: -abs(log(_value(each[0]))))
    shown = ranked[:MOST]
    axis = _Axis.holding([edge for each, _ in shown for edge in _edges(each.ratio)], factor)
    bars = tuple(_bar(each, p, axis) for each, p in shown)
    return Bars(
        tuple(sorted(bars, key=lambda bar: (list(EFFECTS).index(bar.effect), -bar.sort, bar.cell))),
        len(found) - len(moved),
        len(moved) - len(shown),
        factor,
        (axis.place(1 / factor), axis.place(factor)),
        axis.place(1.0),
        axis.ticks,
        "" if found else _why_empty(result),
    )


def _factor(result: Result) -> float:
    own = (gate.bound for gate in result.gates if gate.metric == "ratio-to-floor" and gate.mode == "equivalence")
    return next((bound for bound in own if bound is not None and bound > 1), FACTOR)


@dataclass(frozen=True)
class _Compared:
    cell: CellResult
    ratio: Equivalence
    votes: SignTest


def _value(each: _Compared) -> float:
    return each.ratio.estimate.value or 1.0


def _found(result: Result, sums: Mapping[str, CellTraces], factor: float) -> Iterator[_Compared]:
    arms = {arm.name: arm for arm in result.arms}
    for cell in result.cells:
        if cell.effect in (Effect.TOTAL, Effect.STATE) and cell.candidate in arms and cell.name in sums:
            measure = _floor(result, arms[cell.candidate])
            values, floor = paired(sums[cell.name], measure) if measure else (None, None)
            if measure is not None and values is not None and floor is not None and floor.any():
                yield _Compared(cell, tost_ratio(values, floor, factor), votes(values - floor))


def _floor(result: Result, arm: ArmResult) -> Measure | None:
    """F_num of the arm's kernels, what other cuts change; None if the run has none."""
    if result.floor is None or not result.floor.of(FloorKind.NUM):
        return None
    return result.floor.num_for(arm.history, arm.tail, arm.answers, arm.policy)


def _why_empty(result: Result) -> str:
    if not any(cell.effect in (Effect.TOTAL, Effect.STATE) for cell in result.cells):
        return (
            "The run compared neither cold nor split with warm, so there is nothing that a floor could be held against."
        )
    return (
        "The run has no floor that shows any noise, so there is no margin: add effect grid to the suite, or give "
        "--floor FILE. The matrix has the sizes themselves."
    )


@dataclass(frozen=True)
class _Axis:
    """Logarithmic, from ``low`` to ``high`` times the floor; a bar that leaves it is cut at the edge."""

    low: float
    high: float

    @classmethod
    def holding(cls, values: list[float], factor: float) -> _Axis:
        least = 2.0**FEWEST_DOUBLINGS
        high = max([least, 1.3 * factor, *(1.15 * value for value in values)])
        low = min([1 / least, *(value / 1.15 for value in values if value > 0)])
        return cls(max(low, TICKS[0]), min(high, TICKS[-1]))

    def place(self, value: float) -> float:
        clipped = min(max(value, self.low), self.high)
        return round(100 * log(clipped / self.low) / log(self.high / self.low), 2)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """At most seven, those that are powers of the smallest step that does."""
        inside = [tick for tick in TICKS if self.low <= tick <= self.high]
        step = 1 + len(inside) // 8
        kept = [tick for tick in inside if round(log(tick, 2)) % step == 0]
        return tuple((self.place(tick), f"×{number(tick)}") for tick in kept)


def _edges(of: Equivalence) -> list[float]:
    return [edge for edge in (of.estimate.low, of.estimate.value, of.estimate.high) if edge is not None]


def _not_negative(edge: float | None) -> float | None:
    """A ratio of two sizes can't be below 0; the interval of a few traces' mean can, and nobody could read that."""
    return None if edge is None else max(0.0, edge)


_MARKS = {"equivalent": "good", "different": "bad"}


def _bar(each: _Compared, p: float, axis: _Axis) -> Bar:
    cell, of = each.cell, each.ratio
    value = of.estimate.value or 0.0
    low, high = (value if edge is None else edge for edge in (of.estimate.low, of.estimate.high))
    # Less noise than the floor is no failure: the gate reads it so, too.
    quieter = of.reading != "equivalent" and high < 1
    reading = "quieter than the floor" if quieter else str(of.reading)
    return Bar(
        cell.name,
        short(cell.name),
        cell.effect,
        f"×{number(value)}",
        f"[{number(_not_negative(of.estimate.low))}, {number(of.estimate.high)}]",
        of.estimate.n,
        f"{each.votes.a:,} of {each.votes.n:,} above; p {number(p)}" if each.votes.n else "all just ×1",
        reading,
        "soft" if quieter else _MARKS.get(of.reading, "open"),
        axis.place(value),
        axis.place(low),
        axis.place(high),
        value,
    )
