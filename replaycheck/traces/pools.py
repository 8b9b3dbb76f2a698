"""What synthesis draws from: the requests of a source, as samples of bounded size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from replaycheck.traces.relations import Kind, Relation
from replaycheck.traces.suites.draw import Draw

__all__ = ["Pools", "Reservoir"]

T = TypeVar("T")

#: Requests that are kept of a source, drawn evenly; of the largest public set there are 49,334.
_SIZE = 65_536


@dataclass
class Reservoir(Generic[T]):
    """An even sample of what was put in, at most ``size`` of it."""

    draw: Draw
    size: int = _SIZE
    items: list[T] = field(default_factory=list)
    seen: int = 0

    def put(self, item: T) -> None:
        self.seen += 1
        if len(self.items) < self.size:
            self.items.append(item)
        elif (place := self.draw.below(self.seen)) < self.size:
            self.items[place] = item


@dataclass
class Pools:
    """firsts, steps: first requests of traces, and all others. turns: requests per trace. traces: per group.

    switches, chances: how often the next request was of another trace, where it could have been.
    """

    firsts: Reservoir[Relation]
    steps: Reservoir[Relation]
    turns: Reservoir[int]
    traces: Reservoir[int]
    switches: int = 0
    chances: int = 0

    @classmethod
    def empty(cls, seed: int) -> Pools:
        firsts, steps, turns, traces = (Draw(seed, "pool", name) for name in ("firsts", "steps", "turns", "traces"))
        return cls(Reservoir(firsts), Reservoir(steps), Reservoir(turns), Reservoir(traces))

    def add(self, found: Iterable[Relation]) -> None:
        """The requests of a group."""
        turns: dict[str, int] = {}
        found = list(found)
        for each in found:
            turns[each.trace] = turns.get(each.trace, 0) + 1
            (self.firsts if each.kind is Kind.FIRST else self.steps).put(each)
        for count in turns.values():
            self.turns.put(count)
        self.traces.put(len(turns))
        if len(turns) > 1:
            self.chances += len(found) - 1
            self.switches += sum(each.switched for each in found)

    @property
    def switching(self) -> float:
        return self.switches / self.chances if self.chances else 0.0
