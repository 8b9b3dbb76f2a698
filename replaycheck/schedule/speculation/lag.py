"""ReplaySSM's ring with a lag: accepted tokens stay in the ring as raw inputs until it must be folded into the state.

A state that is copied, given away or forked from has to be folded first, or the copy is up to the ring's length too old.
Read in SGLang 0.5.23 (kernels/ops/attention/linear/fused_recurrent_linear_replayssm.py: flush when the ring is full).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from replaycheck.schedule.operations import Begin, Branch, GroupPlan, Move, Run, Span, Swap
from replaycheck.schedule.prefix.job import How
from replaycheck.schedule.steps import Lag
from replaycheck.schema.arm import Arm, Rollback

__all__ = ["lags"]

Place = tuple[int, int]
"""A request and a count of its tokens."""


def lags(plan: GroupPlan, arm: Arm) -> Mapping[Place, Lag]:
    """The ring round each window, by request and the window's first token; empty for an arm without a lag.

    A window that would leave no room for another one of the group's widest is folded, as is one whose state is used.
    """
    if arm.rollback is not Rollback.REPLAY or not arm.ring_lag or arm.ring is None:
        return {}
    width = max((window.length for request in plan.requests for window in request.windows), default=1)
    used, found, pending = set(_used(plan)), {}, Counter[int]()
    for each in plan.operations:
        if isinstance(each, Begin | Branch):
            pending[each.request] = 0
        for span in each.spans if isinstance(each, Run) else ():
            if span.piece.window is None:
                continue
            before, after = pending[span.request], pending[span.request] + span.piece.window.kept
            if (span.request, span.piece.b) in used or after + width > arm.ring:
                after = 0
            found[span.request, span.piece.a] = Lag(before, after)
            pending[span.request] = after
    return found


def _used(plan: GroupPlan) -> list[Place]:
    """Where a working state is copied or given away."""
    found: list[Place] = []
    for each in plan.operations:
        if isinstance(each, Branch):
            found.append((each.source, each.state.position))
        elif isinstance(each, Move | Swap):
            found.append((each.request, each.state.position))
        elif isinstance(each, Run):
            found += [(span.request, span.piece.b) for span in each.spans if _copied(span)]
    return found


def _copied(span: Span) -> bool:
    return any(take.how is not How.SNAPSHOT for take in span.takes)
