"""The logical plan of a group under a checkpoint policy: what each request restores and which checkpoints it stores.

Cold, split and warm are compiled from this one list, so that they differ in how a state travels and in nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from replaycheck.errors import UsageError
from replaycheck.schema.arm import CheckpointPolicy
from replaycheck.schema.trace import Group
from replaycheck.traces.tree import TokenPath, TraceTree

from .cache import PrefixCache
from .checkpoints import positions
from .steps import Checkpoint, RequestPlan

_MARKERS = ("branch", "rewind")
"""Events that the order of requests says already."""


def plan_requests(group: Group, policy: CheckpointPolicy) -> tuple[RequestPlan, ...]:
    """Walk the group's requests with the reference prefix cache.

    A request for a turn that was asked for before is booked on a branch of its own, after those of the tree.

    Raises:
        UsageError: the group has events that the lab's compilers can't play.
    """
    check_playable(group)
    cache = PrefixCache()
    trees = {trace.id: TraceTree(trace) for trace in group.traces}
    branches = {name: max(tree.branches.values()) for name, tree in trees.items()}
    seen: set[tuple[str, str]] = set()
    plans = []
    for index, request in enumerate(group.requests):
        tree = trees[request.trace]
        path = tree.path(request.turn)
        if (request.trace, request.turn) in seen:
            branches[request.trace] += 1
            path = replace(path, branch=branches[request.trace])
        seen.add((request.trace, request.turn))
        cluster = tree.trace.cluster or tree.trace.id
        plans.append(_plan(index, path, cluster, cache.longest(path), policy, cache))
    return tuple(plans)


def _plan(
    index: int, path: TokenPath, cluster: str, restore: Checkpoint | None, policy: CheckpointPolicy, cache: PrefixCache
) -> RequestPlan:
    start = restore.position if restore else 0
    wanted = [
        Checkpoint(f"r{index}@{position}", index, position, written)
        for position, written in positions(policy, start, path.prompt, path.end)
    ]
    return RequestPlan(
        trace=path.trace,
        branch=path.branch,
        turn=path.turn_index,
        cluster=cluster,
        tokens=path.tokens,
        prompt=path.prompt,
        end=path.end,
        restore=restore,
        creates=tuple(c for c in wanted if cache.add(path, c)),
    )


def check_playable(group: Group) -> None:
    """Raise :class:`UsageError` for an event that no compiler here can play."""
    for trace in group.traces:
        for event in trace.events:
            if event.kind not in _MARKERS:
                raise UsageError(
                    f"group {group.group!r}, trace {trace.id!r}: event {event.kind!r} can't be compiled; "
                    f"the lab plays {' and '.join(map(repr, _MARKERS))}; remove the event or leave the group out"
                )
