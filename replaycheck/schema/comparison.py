"""What ``compare A B --json`` prints: two saved runs, arm by arm, and whether B is no worse than its baseline A."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .arm import Effect
from .base import Record
from .gaps import Where
from .result import Estimate, FreeResult, Verdict

__all__ = ["ArmComparison", "BaselineCell", "Comparison", "NoWorse"]


class ArmComparison(Record):
    """One arm in both runs; differences are B minus A. The numbers are those of a cell of result.json."""

    arm: str
    traces: int
    positions: int = Field(description="scored in both runs")
    only_a: int = Field(description="positions that only run A scored")
    only_b: int
    restores: int = Field(description="turns that began from a restored state in B")
    bits_differ: int = Field(description="positions whose logits have different digests")
    not_finite: int
    missing: int = Field(default=0, description="positions where a subject said nothing about the token")
    unsized: int = Field(default=0, description="of these, positions whose most likely token both runs said")
    unsized_flips: int = Field(default=0, description="of those, positions with another most likely token")
    first_unsized_flip: Where | None = Field(default=None, description="of the first trace that has one")
    abs_dlogp: dict[str, float]
    worst_trace_abs_dlogp: Estimate
    kl_mean: Estimate = Field(description="null: a recording keeps no full distribution")
    kl_max: float | None
    flips: int
    flip_margin_max: float | None
    diverged_branches: dict[str, int]
    first_divergence: dict[str, int | None]
    free: FreeResult | None = Field(default=None, description="of their free runs; null if one of the runs has none")


class BaselineCell(Record):
    """One cell in both runs: how far its two arms are apart in B, less how far they were in A, trace by trace."""

    cell: str
    effect: Effect
    mode: Literal["exact-zero", "statistical"] = Field(
        description="exact-zero: no position of A's cell differed, so none of B's may. statistical: a one-sided t test"
    )
    verdict: Verdict
    traces: int = Field(description="that both runs have; one number each")
    old: Estimate = Field(
        description="of A: positions that differ, or the mean over traces of their mean |Δ log p|, nat"
    )
    new: Estimate = Field(description="the same of B")
    difference: Estimate = Field(description="B less A, with a 90 % interval; null without one number of both")
    margin: float = Field(description="what B may be worse by, in the unit of the difference")
    margin_why: str
    power: float | None = Field(default=None, description="chance that so many traces show no worse if nothing changed")
    traces_needed: int | None = Field(
        default=None, description="traces that an inconclusive cell needs for a power of 0.8"
    )
    worst_trace: str | None = Field(default=None, description="whose number grew most")
    sentence: str


class NoWorse(Record):
    """The verdict of ``--no-worse``: the first of fail, vacuous, inconclusive that a cell has, else pass."""

    verdict: Verdict
    sentence: str
    cells: tuple[BaselineCell, ...] = Field(description="the worst first")
    missing: tuple[str, ...] = Field(description="cells of A that B doesn't have; with one, B can't pass")
    not_judged: tuple[str, ...] = Field(description="grid cells: their difference is legitimate noise in both runs")


class Comparison(Record):
    """What ``compare A B --json`` prints."""

    environment: dict[str, tuple[str | None, str | None]] = Field(
        description="what differs between the machines and inputs, by name: the value in A and in B"
    )
    arms: tuple[ArmComparison, ...]
    unmatched: tuple[str, ...] = Field(description="arms that only one of the runs has")
    no_worse: NoWorse | None = Field(default=None, description="of --no-worse; null: nothing was judged")
