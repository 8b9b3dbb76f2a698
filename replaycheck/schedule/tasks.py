"""The requests of a group as tasks: what each one is, and what the trace's events say about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from replaycheck.errors import UsageError
from replaycheck.schema.trace import AbortedLoad, BatchMates, Fork, Group, Offload, Preemption
from replaycheck.traces.tree import TokenPath, TraceTree

from .prefix.job import Job
from .prefix.origin import Prefixes, labels
from .speculation.early import windows_by_turn
from .speculation.windows import Window


@dataclass
class Task:
    """A request with its events.

    Attributes:
        fork: the request whose live state it copies, and after how many tokens.
        preemption: what is still to come of it.
        offload, aborted: see the events.
        first: tokens in its state when it began, or began again.
        scored: tokens whose logits are recorded.
        windows: the speculation windows of its answer, by their offset.
    """

    path: TokenPath
    cluster: str
    job: Job
    fork: tuple[int, int] | None = None
    preemption: Preemption | None = None
    offload: bool = False
    aborted: bool = False
    first: int = 0
    scored: int = 0
    mates: set[int] = field(default_factory=set)
    windows: dict[int, Window] = field(default_factory=dict)

    def window(self, room: int, budget: int) -> Window:
        """The window that starts where the state ends. A step without drafts, if the trace has none there or it doesn't fit:
        the request stops, or is forked from, after ``room`` tokens, and a forward pass has ``budget`` left."""
        found = self.windows.get(self.job.position - self.job.prompt)
        if found is None or found.kept > room or found.length > budget:
            return Window(self.job.position - self.job.prompt)
        return found


def make_tasks(group: Group) -> list[Task]:
    """One task a request, in order. An event belongs to the first request for its turn.

    A request for a turn that was asked for before is booked on a branch of its own, after those of the tree.
    """
    trees = {trace.id: TraceTree(trace) for trace in group.traces}
    branches = {name: max(tree.branches.values()) for name, tree in trees.items()}
    first: dict[tuple[str, str], int] = {}
    paths = []
    for index, request in enumerate(group.requests):
        path = trees[request.trace].path(request.turn)
        if (request.trace, request.turn) in first:
            branches[request.trace] += 1
            path = replace(path, branch=branches[request.trace])
        first.setdefault((request.trace, request.turn), index)
        paths.append(path)
    tasks = [_task(index, path, trees[path.trace]) for index, path in enumerate(paths)]
    _apply_events(group, tasks, first)
    for trace in group.traces:
        for turn, windows in windows_by_turn(group, trace).items():
            if (trace.id, turn) in first:
                tasks[first[trace.id, turn]].windows = {window.offset: window for window in windows}
    prefixes = Prefixes()
    for task in tasks:
        task.job.numbers = prefixes.of(labels(task.path, _forked(task.path.trace, tasks)))
    return tasks


def _task(index: int, path: TokenPath, tree: TraceTree) -> Task:
    job = Job(index, (), path.prompt, path.end, goal=path.prompt)
    return Task(path, tree.trace.cluster or tree.trace.id, job)


def _forked(trace: str, tasks: list[Task]) -> dict[str, tuple[str, int]]:
    """By turn of a trace: the answer it was forked from, and how many tokens of the answer both share."""
    return {
        task.path.turn: (tasks[task.fork[0]].path.turn, task.fork[1] - task.path.prompt)
        for task in tasks
        if task.fork and task.path.trace == trace
    }


def _apply_events(group: Group, tasks: list[Task], first: dict[tuple[str, str], int]) -> None:
    for trace in group.traces:
        for event in trace.events:
            index = first.get((trace.id, event.turn))
            if index is None:
                continue
            task = tasks[index]
            if isinstance(event, Preemption):
                task.preemption = event
            elif isinstance(event, Offload):
                task.offload = True
            elif isinstance(event, AbortedLoad):
                task.aborted = True
            elif isinstance(event, BatchMates):
                task.mates |= set(_mates(event, trace.id, first))
            elif isinstance(event, Fork):
                task.fork = _fork(group, event, trace.id, first, task)
                task.mates.add(task.fork[0])
    for index, task in enumerate(tasks):
        _flatten(index, task, tasks)


def _mates(event: BatchMates, trace: str, first: dict[tuple[str, str], int]) -> Iterator[int]:
    """Requests for the mates: those of the event's trace, or else of any."""
    for name in event.mates:
        own = first.get((trace, name))
        yield from [own] if own is not None else [index for (_, turn), index in first.items() if turn == name]


def _fork(group: Group, event: Fork, trace: str, first: dict[tuple[str, str], int], task: Task) -> tuple[int, int]:
    source = first.get((trace, event.source))
    if source is None:
        raise UsageError(
            f"group {group.group!r}, trace {trace!r}: {event.turn!r} forks from {event.source!r}, which no request asks "
            "for; add a request for it or remove the event"
        )
    return source, task.path.prompt + event.offset


def _flatten(index: int, task: Task, tasks: list[Task]) -> None:
    """A fork from tokens that the source itself has from a fork is one from there."""
    seen = {index}
    while task.fork is not None:
        source, tokens = task.fork
        if source in seen:
            raise UsageError(
                f"trace {task.path.trace!r}: the forks of {task.path.turn!r} lead back to it; let one answer have no fork"
            )
        seen.add(source)
        above = tasks[source].fork
        if above is None or above[1] < tokens:
            return
        task.fork = above[0], tokens


def waves(tasks: list[Task]) -> list[list[int]]:
    """Requests that run together, in order of their first: mates of mates are mates."""
    leader = list(range(len(tasks)))

    def find(index: int) -> int:
        while leader[index] != index:
            index = leader[index]
        return index

    for index, task in enumerate(tasks):
        for mate in task.mates:
            low, high = sorted((find(index), find(mate)))
            leader[high] = low
    found: dict[int, list[int]] = {}
    for index in range(len(tasks)):
        found.setdefault(find(index), []).append(index)
    return list(found.values())
