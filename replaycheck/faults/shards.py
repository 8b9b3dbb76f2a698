"""Faults of sharding: what a rank has of a tensor. Plan in, plan out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from replaycheck.schedule.parallel import Cut, ParallelPlan, RankPlan

__all__ = ["ShardsFault", "beta_replicated", "contiguous", "of_the_next_rank", "tensor_cut"]

ShardsFault = Callable[[ParallelPlan], ParallelPlan]


def beta_replicated(plan: ParallelPlan) -> ParallelPlan:
    """Every rank has the first rank's beta, as a replicated part of a merged projection is loaded."""
    first = plan.ranks[0].cuts["kda.b"]
    return replace(plan, ranks=tuple(replace(rank, cuts={**rank.cuts, "kda.b": first}) for rank in plan.ranks))


def tensor_cut(name: str, change: Callable[[RankPlan], Cut | None]) -> ShardsFault:
    """Each rank has another part of the tensor ``name``."""

    def fault(plan: ParallelPlan) -> ParallelPlan:
        ranks = tuple(replace(rank, cuts={**rank.cuts, name: change(rank)}) for rank in plan.ranks)
        return replace(plan, ranks=ranks)

    return fault


def of_the_next_rank(*names: str) -> ShardsFault:
    """Each rank has the next one's part of these tensors."""

    def fault(plan: ParallelPlan) -> ParallelPlan:
        turned = [*plan.ranks[1:], plan.ranks[0]]
        pairs = zip(plan.ranks, turned, strict=True)
        cuts = [{**rank.cuts, **{name: other.cuts[name] for name in names}} for rank, other in pairs]
        return replace(plan, ranks=tuple(replace(r, cuts=c) for r, c in zip(plan.ranks, cuts, strict=True)))

    return fault


def contiguous(name: str) -> ShardsFault:
    """An axis that is q, k and v is cut as one: a rank's part has the right size and the wrong channels."""

    def fault(plan: ParallelPlan) -> ParallelPlan:
        def cut(rank: RankPlan) -> Cut | None:
            right = rank.cuts[name]
            if right is None:
                return None
            size = len(right.indices())
            return Cut(right.axis, ((rank.rank * size, (rank.rank + 1) * size),))

        return tensor_cut(name, cut)(plan)

    return fault
