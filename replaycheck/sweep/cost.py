"""What a policy costs on a workload, from its plans alone: tokens computed again, states and their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from replaycheck.capacity.geometry import geometry_of
from replaycheck.capacity.sizes import Layout, sizes
from replaycheck.prefixes import common
from replaycheck.schedule.requests import plan_requests
from replaycheck.schedule.steps import RequestPlan
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.policy import Policy
from replaycheck.schema.trace import Group

__all__ = ["Cost", "cost", "state_bytes"]


@dataclass(frozen=True)
class Cost:
    """prompts, repeated: tokens of all prompts; of these, tokens that an earlier request of the trace had computed.
    recomputed: of these, tokens that no restored state covers. states: stored.
    """

    prompts: int
    repeated: int
    recomputed: int
    states: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.prompts + other.prompts,
            self.repeated + other.repeated,
            self.recomputed + other.recomputed,
            self.states + other.states,
        )


def cost(groups: Sequence[Group], policy: Policy) -> Cost:
    """Of all groups; nothing is shared between traces."""
    total = Cost(0, 0, 0, 0)
    for group in groups:
        plans = plan_requests(group, policy)
        for index, plan in enumerate(plans):
            before = [other for other in plans[:index] if other.trace == plan.trace]
            total += _of(plan, before)
    return total


def _of(plan: RequestPlan, before: Sequence[RequestPlan]) -> Cost:
    """A prompt's last token is always computed, so it never counts as repeated."""
    seen = max(
        (common(plan.tokens[: plan.prompt - 1], other.tokens[: other.computed_end]) for other in before), default=0
    )
    return Cost(plan.prompt, seen, max(0, seen - plan.start), len(plan.creates))


def state_bytes(model: Path, pool: PoolDtype) -> int:
    """A stored state without speculation: temporal in the pool's dtype, convolution as bf16 activations."""
    found = sizes(geometry_of(model), Layout(pool))
    return found.temporal + found.conv
