"""Smaller groups: without some requests, events or turns, or with shorter turns. Each edit leaves a well-formed tree.

Turns that no request needs go, and with them their events; what is left keeps its names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from replaycheck.schema.trace import BatchMates, Event, Fork, Group, Request, Trace, Turn
from replaycheck.traces.tree import TraceTree
from replaycheck.traces.vocabulary import turn_tokens

__all__ = ["Place", "events_of", "length_of", "shortened", "turns_of", "with_events", "with_requests", "without_turn"]

Place = tuple[str, str]
"""Trace and turn."""


def with_requests(group: Group, requests: Sequence[Request]) -> Group:
    """The group with these requests, and the turns that they need."""
    needed = {trace.id: _needed(trace, requests) for trace in group.traces}
    traces = tuple(_kept(trace, needed[trace.id], needed) for trace in group.traces if needed[trace.id])
    return group.model_copy(update={"requests": tuple(requests), "traces": traces})


def _needed(trace: Trace, requests: Sequence[Request]) -> set[str]:
    tree = TraceTree(trace)
    asked = [request.turn for request in requests if request.trace == trace.id]
    return {turn.id for name in asked for turn in tree.lineage(name)}


def _kept(trace: Trace, turns: Collection[str], needed: dict[str, set[str]]) -> Trace:
    answers = set().union(*needed.values())
    events = tuple(event for event in trace.events if event.turn in turns and _meaningful(event, turns, answers))
    return trace.model_copy(update={"turns": tuple(turn for turn in trace.turns if turn.id in turns), "events": events})


def _meaningful(event: Event, turns: Collection[str], answers: Collection[str]) -> bool:
    if isinstance(event, Fork):
        return event.source in turns
    if isinstance(event, BatchMates):
        return all(mate in answers for mate in event.mates)
    return getattr(event, "to", event.turn) in turns


def events_of(group: Group) -> list[tuple[str, int]]:
    """Every event, by trace and number."""
    return [(trace.id, number) for trace in group.traces for number in range(len(trace.events))]


def with_events(group: Group, kept: Collection[tuple[str, int]]) -> Group:
    """The group with these of its events."""
    traces = tuple(
        trace.model_copy(
            update={"events": tuple(event for i, event in enumerate(trace.events) if (trace.id, i) in kept)}
        )
        for trace in group.traces
    )
    return group.model_copy(update={"traces": traces})


def turns_of(group: Group) -> list[Place]:
    """Every turn, longest first."""
    found = [((trace.id, turn.id), len(turn.tokens)) for trace in group.traces for turn in trace.turns]
    return [place for place, _ in sorted(found, key=lambda each: -each[1])]


def length_of(group: Group, place: Place) -> int:
    """Letters of a turn."""
    return next(len(turn.text) for trace in group.traces for turn in trace.turns if (trace.id, turn.id) == place)


def shortened(group: Group, place: Place, length: int) -> Group:
    """The group with one turn cut to its first letters."""

    def cut(trace: Trace, turn: Turn) -> Turn:
        if (trace.id, turn.id) != place:
            return turn
        text = turn.text[:length]
        return turn.model_copy(update={"text": text, "tokens": tuple(turn_tokens(turn.role, text)), "sampled": None})

    traces = tuple(
        trace.model_copy(update={"turns": tuple(cut(trace, turn) for turn in trace.turns)}) for trace in group.traces
    )
    return group.model_copy(update={"traces": traces})


def without_turn(group: Group, place: Place) -> Group:
    """The group without a turn that nobody asks for; the turns below it continue the one above."""
    name, gone = place
    traces = []
    for trace in group.traces:
        above = {turn.id: turn.parent for turn in trace.turns}
        if trace.id == name:
            turns = tuple(
                turn.model_copy(update={"parent": above[gone]}) if turn.parent == gone else turn
                for turn in trace.turns
                if turn.id != gone
            )
            events = tuple(event for event in trace.events if event.turn != gone)
            trace = trace.model_copy(update={"turns": turns, "events": events})
        traces.append(trace)
    return group.model_copy(update={"traces": tuple(traces)})
