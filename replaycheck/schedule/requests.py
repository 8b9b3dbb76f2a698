"""The logical plan of a group under a checkpoint policy: what each request restores and which checkpoints it stores.

Cold, split and warm are compiled from this one plan, so that they differ in how a state travels and in nothing else.
"""

from __future__ import annotations

from replaycheck.schema.arm import Kernel
from replaycheck.schema.policy import Policy
from replaycheck.schema.trace import Group

from .operations import Begin, Branch, GroupPlan, Move, Operation, Run, Span, Store, Swap
from .prefix.job import How
from .serve import Server
from .speculation.early import windows_by_turn
from .steps import Checkpoint, RequestPlan
from .tasks import Task


def plan_group(group: Group, policy: Policy, answer: Kernel = Kernel.RECURRENT) -> GroupPlan:
    """Serve the group's requests with the policy's cache.

    Args:
        answer: kernel of the answers; the chunk kernel runs an answer as one extend.

    Raises:
        UsageError: events contradict each other or their turn, or nothing leads to a fork.
    """
    server = Server(group, policy, answer)
    server.serve()
    operations = tuple(server.operations)
    plans = tuple(_plan(index, task, operations) for index, task in enumerate(server.tasks))
    return GroupPlan(plans, operations)


def plan_requests(group: Group, policy: Policy) -> tuple[RequestPlan, ...]:
    """The requests of :func:`plan_group`."""
    return plan_group(group, policy).requests


def _plan(index: int, task: Task, operations: tuple[Operation, ...]) -> RequestPlan:
    mine = [each for each in operations if not isinstance(each, Run) and getattr(each, "request", None) == index]
    restores = [each.restore for each in mine if isinstance(each, Begin)]
    created = {
        each.stored.take.checkpoint.name: each.stored.take.checkpoint for each in mine if isinstance(each, Store)
    }
    return RequestPlan(
        trace=task.path.trace,
        branch=task.path.branch,
        turn=task.path.turn_index,
        cluster=task.cluster,
        tokens=task.path.tokens,
        prompt=task.path.prompt,
        end=task.path.end,
        restore=restores[0] if restores else None,
        creates=tuple(sorted(created.values(), key=lambda c: c.position)),
        copies=tuple(each for each in _copies(index, operations) if each.name not in created),
        windows=tuple(span.piece.window for span in _spans(index, operations) if span.piece.window),
        numbers=task.job.numbers,
    )


def _spans(index: int, operations: tuple[Operation, ...]) -> list[Span]:
    return [span for each in operations if isinstance(each, Run) for span in each.spans if span.request == index]


def _copies(index: int, operations: tuple[Operation, ...]) -> list[Checkpoint]:
    """States of a request that are copied whole: live ones, and snapshots that went to a buffer."""
    live = [
        each.state
        for each in operations
        if (isinstance(each, Branch) and each.source == index)
        or (isinstance(each, Move | Swap) and each.request == index)
    ]
    taken = [
        t.checkpoint
        for span in _spans(index, operations)
        for t in span.takes
        if t.buffer is not None and t.how is How.COPY
    ]
    return list({c.name: c for c in live + taken}.values())


def check_playable(group: Group) -> None:
    """Raise :class:`UsageError` for events that contradict each other or their turn."""
    for trace in group.traces:
        windows_by_turn(group, trace)
