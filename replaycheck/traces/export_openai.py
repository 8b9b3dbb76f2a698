"""OpenAI messages: a conversation a line. The format knows no forks: each path of the tree is a conversation of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from replaycheck.schema.trace import Branch, Group, Rewind, Trace
from replaycheck.traces.importers.log import Log
from replaycheck.traces.tree import TraceTree

__all__ = ["note_losses", "openai_lines"]


def openai_lines(group: Group, log: Log) -> Iterator[dict[str, object]]:
    """One line for each answer that isn't on the way to another one."""
    note_losses(group, log)
    for trace in group.traces:
        tree = TraceTree(trace)
        ends = _ends(group, trace, tree)
        if len(ends) > 1:
            log.drop("fork: the paths of a tree are conversations of their own", len(ends) - 1)
        for number, turn in enumerate(ends, 1):
            messages = [{"role": each.role, "content": each.text} for each in tree.lineage(turn)]
            yield {"id": f"{trace.id}-{number}", "messages": messages}


def _ends(group: Group, trace: Trace, tree: TraceTree) -> list[str]:
    """The answers asked for that no other answer asked for comes after, in file order."""
    asked = {request.turn for request in group.requests if request.trace == trace.id}
    passed = {each.id for turn in asked for each in tree.lineage(turn)[:-1]}
    return [turn.id for turn in trace.turns if turn.id in asked - passed]


def note_losses(group: Group, log: Log) -> None:
    """What no format but ours holds."""
    counts = Counter((request.trace, request.turn) for request in group.requests)
    log.drop("request that was made again", sum(counts.values()) - len(counts))
    if len(group.traces) > 1:
        log.drop("order of requests of several traces", 1)
    for trace in group.traces:
        for event in trace.events:
            if not isinstance(event, Branch | Rewind):
                log.drop(f"event: {event.kind}")
        log.drop("seed of a sampled answer", sum(turn.sampled is not None for turn in trace.turns))
