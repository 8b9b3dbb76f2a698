"""One measured number of a gate, with its evidence, before any bound is applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from replaycheck.schema.result import Estimate
from replaycheck.stats.intervals import CONFIDENCE, proportion

__all__ = ["Measured", "counted", "largest", "nothing"]


@dataclass(frozen=True)
class Measured:
    """``traces`` is None where traces aren't the evidence (probes); ``vacuous`` says why nothing was measured."""

    estimate: Estimate
    worst: str  # where the value was reached
    traces: int | None
    words: str  # "12 of 3,400 positions differ in bits"
    vacuous: str = ""


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
