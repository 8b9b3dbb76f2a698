"""One measured number of a gate with its evidence, and the bound where a floor decides that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from replaycheck.schema.result import Estimate
from replaycheck.stats.intervals import CONFIDENCE, proportion

from .bounds import Bound

__all__ = ["CellNumber", "Measured", "counted", "largest", "nothing", "worst_cell"]


@dataclass(frozen=True)
class Measured:
    """What a metric says to the judge.

    Attributes:
        worst: where the value was reached.
        traces: the evidence; None where traces aren't (probes).
        words: "12 of 3,400 positions differ in bits".
        vacuous: why nothing was measured. unfit: why a run of this matrix holds nothing that the metric is about.
        bound: None for the gate's own constant.
        decided: pass, fail or inconclusive, of a metric that decides by an interval; None: the value does.
        high_decides: the value passes only if the interval's upper end is within the bound, too.
        power, power_of: chance to decide with these traces; None for the usual one, see ``judge``.
        needed: traces for a decision, where the metric knows.
        passing: the smallest bound that would have passed; None for the value.
    """

    estimate: Estimate
    worst: str
    traces: int | None
    words: str
    vacuous: str = ""
    bound: Bound | None = None
    mode: Literal["bound", "exact-zero", "equivalence"] = "bound"
    decided: Literal["pass", "fail", "inconclusive"] | None = None
    reading: str | None = None
    high_decides: bool = False
    power: float | None = None
    power_of: str = ""
    needed: int | None = None
    passing: float | None = None
    unfit: str = ""


def nothing(why: str, traces: int | None) -> Measured:
    """Nothing was measured, and why."""
    return Measured(Estimate(value=None, n=0, method="nothing to measure"), "", traces, "nothing was measured", why)


def counted(events: Mapping[str, int], n: int, noun: str, verb: str, traces: int | None, vacuous: str = "") -> Measured:
    """Bad events by place, among ``n`` possible ones. The interval is Clopper and Pearson's, times n: in events."""
    total = sum(events.values())
    if not n:
        return nothing(vacuous or f"there are no {noun}", traces)
    low, high = proportion(total, n)
    side = "one-sided" if total == 0 else "two-sided"
    method = f"count, exact binomial over {noun}, {CONFIDENCE:.0%} {side}"
    words = f"{total:,} of {n:,} {noun} {verb}"
    if not total:
        words += f" (at {CONFIDENCE:.0%} confidence at most {high:.2g} of them would)"
    estimate = Estimate(value=total, n=n, method=method, low=low * n, high=high * n)
    return Measured(estimate, _worst(events), traces, words, vacuous)


def largest(
    values: Mapping[str, float], n: int, noun: str, what: str, traces: int | None, vacuous: str = ""
) -> Measured:
    """The largest of one number a place, over ``n`` things."""
    if not values:
        return nothing(vacuous or f"there are no {noun}", traces)
    worst = max(sorted(values), key=values.__getitem__)
    estimate = Estimate(value=values[worst], n=n, method=f"largest over {noun}")
    return Measured(estimate, worst, traces, f"the largest {what} of {n:,} {noun} is {values[worst]:.3g}", vacuous)


def _worst(events: Mapping[str, int]) -> str:
    """The place with the most events, the first by name of equal ones; empty without any event."""
    places: Iterable[str] = sorted(place for place, count in events.items() if count)
    return max(places, key=events.__getitem__, default="")


@dataclass(frozen=True)
class CellNumber:
    """One cell's number with its bound; ``estimate`` gives it an interval, which only the worst cell needs."""

    value: float
    where: str
    traces: int
    bound: Bound
    estimate: Callable[[], Estimate]
    words: str


def worst_cell(numbers: Iterable[CellNumber], traces: int, vacuous: str, high_decides: bool = False) -> Measured:
    """The cell that is furthest over its bound; of those within, one without a bound; else the one nearest to it."""
    found = list(numbers)
    if not found:
        return nothing(vacuous or "no cell of this scope has such a number", traces)
    worst = max(found, key=_weight)
    return Measured(worst.estimate(), worst.where, traces, worst.words, vacuous, worst.bound, high_decides=high_decides)


def _weight(number: CellNumber) -> tuple[int, float]:
    if number.bound.value is None:
        return 1, number.value
    return 2 if number.bound.broken_by(number.value) else 0, number.bound.share(number.value)
