"""Simpler versions of a case, one thing taken out of both arms at a time. A failure that goes away needed that thing.

Explaining asks which of them make a failure vanish; shrinking keeps those that don't.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.trace import (
    AbortedLoad,
    BatchMates,
    Fork,
    Group,
    Offload,
    Preemption,
    Speculation,
    Trace,
)
from replaycheck.traces.tree import TraceTree

from .again import Case

__all__ = ["SIMPLER", "Switch", "alone", "simpler"]


class Switch(StrEnum):
    """What is taken out."""

    BATCH = "batch mates"
    SPECULATION = "speculation"
    REJECTION = "rejected drafts"
    PREEMPTION = "preemption"
    TIER = "the host tier"
    FORK = "forks"
    PADDING = "padding"
    RANKS = "several ranks"
    REDUCED = "a reduced pool"
    LIMITS = "limits of pool and pass"


def _without(*kinds: type) -> Callable[[Case], Case | None]:
    """The case without events of these kinds, or None where there is none."""

    def change(case: Case) -> Case | None:
        traces = tuple(_dropped(trace, kinds) for trace in case.group.traces)
        return case.with_group(_with(case.group, traces)) if traces != case.group.traces else None

    return change


def _dropped(trace: Trace, kinds: tuple[type, ...]) -> Trace:
    return trace.model_copy(update={"events": tuple(each for each in trace.events if not isinstance(each, kinds))})


def _with(group: Group, traces: tuple[Trace, ...]) -> Group:
    return group.model_copy(update={"traces": traces})


def _token_by_token(case: Case) -> Case | None:
    return None if case.candidate.rollback is None else case.with_arms(rollback=None, ring=None, ring_lag=False)


def _accepted(case: Case) -> Case | None:
    """Every draft is right: it is the answer's own token."""
    if case.candidate.rollback is None:
        return None
    group = _with(case.group, tuple(_all_right(trace) for trace in case.group.traces))
    return case.with_group(group) if group != case.group else None


def _all_right(trace: Trace) -> Trace:
    tree = TraceTree(trace)
    right = {}
    for each in trace.events:
        if isinstance(each, Speculation):
            answer = tree.path(each.turn).answer
            drafts = answer[each.offset + 1 : each.offset + 1 + each.accepted]
            right[id(each)] = each.model_copy(update={"drafts": drafts, "accepted": len(drafts)})
    return trace.model_copy(update={"events": tuple(right.get(id(each), each) for each in trace.events)})


def _unpadded(case: Case) -> Case | None:
    return None if case.candidate.padding is None else case.with_arms(padding=None)


def _one_rank(case: Case) -> Case | None:
    return None if case.candidate.tensor_parallel == 1 else case.with_arms(tensor_parallel=1)


def _wide(case: Case) -> Case | None:
    return None if case.candidate.pool is PoolDtype.FP32 else case.with_arms(pool=PoolDtype.FP32)


def _unlimited(case: Case) -> Case | None:
    policy = case.candidate.policy
    if policy.capacity is None and policy.budget is None:
        return None
    return case.with_arms(policy=policy.model_copy(update={"capacity": None, "budget": None}))


SIMPLER: Final[Mapping[Switch, Callable[[Case], Case | None]]] = MappingProxyType(
    {
        Switch.PADDING: _unpadded,
        Switch.RANKS: _one_rank,
        Switch.BATCH: _without(BatchMates),
        Switch.PREEMPTION: _without(Preemption),
        Switch.TIER: _without(Offload, AbortedLoad),
        Switch.FORK: _without(Fork),
        Switch.SPECULATION: _token_by_token,
        Switch.REJECTION: _accepted,
        Switch.LIMITS: _unlimited,
        Switch.REDUCED: _wide,
    }
)


def simpler(case: Case) -> Iterator[tuple[Switch, Case]]:
    """Every simpler case there is, with what it lacks."""
    for switch, change in SIMPLER.items():
        found = change(case)
        if found is not None:
            yield switch, found


def alone(case: Case, request: int) -> Case | None:
    """The case with this request and those for earlier turns of its own path; None if there are no others."""
    wanted = case.group.requests[request]
    trace = next(each for each in case.group.traces if each.id == wanted.trace)
    path = {turn.id for turn in TraceTree(trace).lineage(wanted.turn)}
    kept = tuple(each for each in case.group.requests if each.trace == wanted.trace and each.turn in path)
    if len(kept) == len(case.group.requests):
        return None
    group = case.group.model_copy(update={"requests": kept, "traces": (_own(trace, path),)})
    return case.with_group(group)


def _own(trace: Trace, path: set[str]) -> Trace:
    """The turns of a path, and their events that need no other turn."""
    events = tuple(
        each
        for each in trace.events
        if each.turn in path and not isinstance(each, Fork) and not set(getattr(each, "mates", ())) - path
    )
    turns = tuple(turn for turn in trace.turns if turn.id in path)
    return trace.model_copy(update={"turns": turns, "events": events})
