"""Real mistakes in sharding, as functions from plans to plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from replaycheck.schedule.parallel import Cut, Geometry, ParallelPlan, RankPlan

PlanFault = Callable[[ParallelPlan, Geometry], ParallelPlan]


def _contiguous(plan: ParallelPlan, geometry: Geometry, tensor: str) -> ParallelPlan:
    width = 2 * geometry.key_heads * geometry.key + geometry.value_heads * geometry.value
    degree = len(plan.ranks)

    def change(rank: RankPlan) -> Cut:
        return Cut(_axis(rank, tensor), ((rank.rank * width // degree, (rank.rank + 1) * width // degree),))

    return _with(plan, tensor, change)


def conv_weight_contiguous(plan: ParallelPlan, geometry: Geometry) -> ParallelPlan:
    """The loader cuts the concatenated q | k | v convolution in equal parts."""
    return _contiguous(plan, geometry, "kda.conv")


def conv_state_contiguous(plan: ParallelPlan, geometry: Geometry) -> ParallelPlan:
    """A state of one degree is read at another, its conv width cut in equal parts (vLLM issue 55208)."""
    return _contiguous(plan, geometry, "state.conv")


def beta_replicated(plan: ParallelPlan, geometry: Geometry) -> ParallelPlan:
    """Every rank loads the first rank's beta, as a replicated part of a merged projection is loaded."""
    return _with(plan, "kda.b", lambda rank: plan.ranks[0].cuts["kda.b"])


def a_log_not_sharded(plan: ParallelPlan, geometry: Geometry) -> ParallelPlan:
    """Every rank reads the decay rates of the first heads."""
    return _with(plan, "kda.A_log", lambda rank: plan.ranks[0].cuts["kda.A_log"])


def heads_one_off(plan: ParallelPlan, geometry: Geometry) -> ParallelPlan:
    """q, k and v begin one head late; the last rank wraps round."""
    width = geometry.key_heads * geometry.key

    def change(rank: RankPlan) -> Cut:
        blocks = (
            (0, rank.key_heads, geometry.key_heads, geometry.key),
            (width, rank.key_heads, geometry.key_heads, geometry.key),
            (2 * width, rank.value_heads, geometry.value_heads, geometry.value),
        )
        ranges = [
            (first + (head + 1) % count * size, first + ((head + 1) % count + 1) * size)
            for first, heads, count, size in blocks
            for head in range(*heads)
        ]
        return Cut(0, tuple(ranges))

    return _with(plan, "kda.qkv", change)


def sum_backwards(plan: ParallelPlan, geometry: Geometry) -> ParallelPlan:
    """The last rank's part comes first."""
    return replace(plan, order=plan.order[::-1])


LOCAL: dict[str, PlanFault] = {
    fault.__name__: fault
    for fault in (conv_weight_contiguous, conv_state_contiguous, beta_replicated, a_log_not_sharded, heads_one_off)
}
"""Faults that change what a rank computes, not only how parts are added."""


def _with(plan: ParallelPlan, tensor: str, change: Callable[[RankPlan], Cut | None]) -> ParallelPlan:
    return replace(plan, ranks=tuple(replace(rank, cuts={**rank.cuts, tensor: change(rank)}) for rank in plan.ranks))


def _axis(rank: RankPlan, tensor: str) -> int:
    cut = rank.cuts[tensor]
    assert cut is not None
    return cut.axis
