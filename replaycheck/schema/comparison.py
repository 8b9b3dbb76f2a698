"""What ``compare A B --json`` prints: two saved runs, arm by arm."""

from __future__ import annotations

from pydantic import Field

from .base import Record
from .result import Estimate


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
    abs_dlogp: dict[str, float]
    worst_trace_abs_dlogp: Estimate
    kl_mean: Estimate = Field(description="null: a recording keeps no full distribution")
    kl_max: float | None
    flips: int
    flip_margin_max: float | None
    diverged_branches: dict[str, int]
    first_divergence: dict[str, int | None]


class Comparison(Record):
    environment: dict[str, tuple[str | None, str | None]] = Field(
        description="what differs between the machines and inputs, by name: the value in A and in B"
    )
    arms: tuple[ArmComparison, ...]
    unmatched: tuple[str, ...] = Field(description="arms that only one of the runs has")
