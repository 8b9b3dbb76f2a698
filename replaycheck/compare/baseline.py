"""No worse than the baseline: a cell's two arms may not be further apart in the new run than they were in the old one.

One number a trace and run; the differences of the traces that both have decide, one-sided, against a margin that the old run
fixes. Where no position of the old cell differed there is no noise to test against: then none of the new one may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replaycheck.schema.arm import Effect
from replaycheck.schema.comparison import BaselineCell
from replaycheck.schema.estimate import Estimate
from replaycheck.schema.result import Verdict
from replaycheck.stats.equivalence import ALPHA, no_worse
from replaycheck.stats.intervals import mean_of
from replaycheck.stats.power import no_worse_power, traces_for_no_worse
from replaycheck.stats.reduction import PerTrace, by_cluster

__all__ = ["MIN_TRACES", "NOISE_SHARE", "CellTraces", "Margin", "judge_cell"]

MIN_TRACES = 32
"""Fewer show nothing: a t interval of 8 heavy-tailed traces covers 83 % instead of 95, of 32 88 % (docs/statistics.md)."""

NOISE_SHARE = 0.1
"""The margin, as a share of the baseline's own noise of other cuts (F_num). Independent errors add in squares, so a new one
of less than √(1.1² − 1) = 46 % of that noise moves a total by less than this; one that is larger is to be seen."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class CellTraces:
    """One cell of one run. trace: names [n]. cluster: of each. apart: mean |Δ log p| of each, nat; NaN if it has none.

    differ: positions of each whose logits differ. not_finite: positions of each without a finite difference.
    """

    trace: tuple[str, ...]
    cluster: tuple[str, ...]
    apart: Values
    differ: NDArray[np.int64]
    not_finite: NDArray[np.int64]

    def take(self, names: Sequence[str]) -> CellTraces:
        """These traces, in this order."""
        place = {name: at for at, name in enumerate(self.trace)}
        at = np.array([place[name] for name in names], np.int64)
        return CellTraces(
            tuple(names),
            tuple(self.cluster[each] for each in at),
            self.apart[at],
            self.differ[at],
            self.not_finite[at],
        )


@dataclass(frozen=True)
class Margin:
    """What the new run may be worse by, nat, and why so much."""

    nat: float
    why: str


def judge_cell(
    cell: str,
    effect: Effect,
    old: CellTraces,
    new: CellTraces,
    margin: Margin,
    cells: int,
    vacuous: str = "",
    zero: bool = False,
) -> BaselineCell:
    """One cell.

    Args:
        cells: how many are judged together. Each may pass at 5 %, as all must; to fail one takes 5 % over their number, so
            that a run without change fails once in twenty times at most, whatever their number.
        vacuous: why the new cell proves nothing, if it doesn't: one that never hit differs nowhere.
        zero: no position of the whole old cell differed.
    """
    found = set(old.trace) & set(new.trace)
    both = [name for name in old.trace if name in found]
    before, after = old.take(both), new.take(both)
    if vacuous or not both:
        reason = vacuous or "the runs share no trace of it"
        return _vacuous(cell, effect, margin, f"Nothing was compared: {reason}.")
    lost = int(after.not_finite.sum() - before.not_finite.sum())
    if lost > 0:
        worst = both[int((after.not_finite - before.not_finite).argmax())]
        sentence = f"{lost:,} more positions than in the baseline have no finite log-probability."
        return _counted(cell, effect, before.not_finite, after.not_finite, "fail", worst, sentence)
    if zero:
        return _exact(cell, effect, before, after)
    return _statistical(cell, effect, before, after, margin, cells)


def _exact(cell: str, effect: Effect, before: CellTraces, after: CellTraces) -> BaselineCell:
    count = int(after.differ.sum())
    worst = after.trace[int(after.differ.argmax())] if count else None
    sentence = (
        f"{count:,} positions differ, and none did in the baseline."
        if count
        else "No position differs, as in the baseline."
    )
    return _counted(cell, effect, before.differ, after.differ, "fail" if count else "pass", worst, sentence)


def _counted(
    cell: str,
    effect: Effect,
    before: NDArray[np.int64],
    after: NDArray[np.int64],
    verdict: Verdict,
    worst: str | None,
    sentence: str,
) -> BaselineCell:
    a, b, n = float(before.sum()), float(after.sum()), len(before)
    return BaselineCell(
        cell=cell,
        effect=effect,
        mode="exact-zero",
        verdict=verdict,
        traces=n,
        old=Estimate(value=a, n=n, method="count of positions"),
        new=Estimate(value=b, n=n, method="count of positions"),
        difference=Estimate(value=b - a, n=n, method="count of positions"),
        margin=0.0,
        margin_why="what was exact stays exact",
        worst_trace=worst,
        sentence=sentence,
    )


def _statistical(
    cell: str, effect: Effect, before: CellTraces, after: CellTraces, margin: Margin, cells: int
) -> BaselineCell:
    kept = np.isfinite(before.apart) & np.isfinite(after.apart)
    change = (after.apart - before.apart)[kept]
    if not len(change):
        return _vacuous(cell, effect, margin, "Nothing was compared: no trace has a difference in both runs.")
    clusters = [name for name, keep in zip(before.cluster, kept, strict=True) if keep]
    codes, traces = np.unique(np.array(clusters), return_inverse=True)[1], np.arange(len(change))
    numbers = (before.apart[kept], after.apart[kept], change)
    a, b, d = (by_cluster(PerTrace(traces, each), codes) for each in numbers)
    found = no_worse(d, margin.nat)
    failed = found.p_worse is not None and found.p_worse <= ALPHA / cells
    same = not d.any()
    shown = bool(found.holds) and len(d) >= MIN_TRACES
    verdict: Verdict = "fail" if failed else "pass" if same or shown else "inconclusive"
    spread = found.spread or 0.0
    needed = traces_for_no_worse(margin.nat, spread) if spread and margin.nat > 0 else None
    return BaselineCell(
        cell=cell,
        effect=effect,
        mode="statistical",
        verdict=verdict,
        traces=int(kept.sum()),
        old=Estimate.of(mean_of(a)),
        new=Estimate.of(mean_of(b)),
        difference=Estimate.of(found.estimate),
        margin=margin.nat,
        margin_why=margin.why,
        power=no_worse_power(len(d), margin.nat, spread) if len(d) > 1 else None,
        traces_needed=max(needed, MIN_TRACES) if verdict == "inconclusive" and needed else None,
        worst_trace=np.array(before.trace)[kept][int(change.argmax())] if change.max() > 0 else None,
        sentence=_sentence(verdict, same, len(d), d, margin),
    )


def _sentence(verdict: Verdict, same: bool, n: int, change: Values, margin: Margin) -> str:
    if same:
        return "Every trace has the same number as in the baseline."
    moved = f"The mean over {n} traces moved by {change.mean():+.3g} nat"
    if verdict == "fail":
        return f"{moved}, shown to be more than the margin {margin.nat:.3g}."
    if verdict == "pass":
        return f"{moved}, shown to be less than the margin {margin.nat:.3g}."
    few = f"; under {MIN_TRACES} traces prove nothing" if n < MIN_TRACES else ""
    return f"{moved}, which is neither shown to be under the margin {margin.nat:.3g} nor over it{few}."


def _vacuous(cell: str, effect: Effect, margin: Margin, sentence: str) -> BaselineCell:
    nothing = Estimate(value=None, n=0, method="not seen")
    return BaselineCell(
        cell=cell,
        effect=effect,
        mode="statistical",
        verdict="vacuous",
        traces=0,
        old=nothing,
        new=nothing,
        difference=nothing,
        margin=margin.nat,
        margin_why=margin.why,
        sentence=sentence,
    )
