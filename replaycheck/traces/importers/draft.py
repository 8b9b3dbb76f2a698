"""A group while it is imported: trees of turns of any length, and what was asked for, in the source's own names.

A message that comes again after the same messages is the same turn; that is how flat prompts become a tree, and how an
answer that the client sends back unchanged is recognised. An answer that comes back changed is another turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from replaycheck.schema.trace import Role

from .source import SourceFile
from .words import Words

__all__ = ["Ask", "DraftGroup", "DraftTrace", "DraftTurn"]


@dataclass(frozen=True)
class DraftTurn:
    """``parent`` is a number in the trace; None for the first turn of a path."""

    parent: int | None
    role: Role
    words: Words


@dataclass
class DraftTrace:
    """A tree of turns, parents first."""

    name: str
    turns: list[DraftTurn] = field(default_factory=list)
    #: (answer, turn): after this answer the client went back to that turn; None: found from the requests
    rewinds: list[tuple[int, int]] | None = None
    _known: dict[tuple[int | None, str, object], int] = field(default_factory=dict)

    def say(self, parent: int | None, role: Role, words: Words, key: object) -> int:
        """The turn of this role and ``key`` after ``parent``: the one that is there, or a new one."""
        name = (parent, role, key)
        if name not in self._known:
            self._known[name] = self.add(parent, role, words)
        return self._known[name]

    def add(self, parent: int | None, role: Role, words: Words) -> int:
        """A new turn, whatever is there."""
        self.turns.append(DraftTurn(parent, role, words))
        return len(self.turns) - 1

    def went_back(self, answer: int, turn: int) -> None:
        self.rewinds = [*(self.rewinds or []), (answer, turn)]

    def lineage(self, turn: int | None) -> list[int]:
        """The turns from the root to ``turn``."""
        path = []
        while turn is not None:
            path.append(turn)
            turn = self.turns[turn].parent
        return path[::-1]

    def common(self, one: int, other: int) -> int | None:
        """The last turn that two paths share."""
        pairs = zip(self.lineage(one), self.lineage(other), strict=False)
        shared = [a for a, b in pairs if a == b]
        return shared[-1] if shared else None


@dataclass(frozen=True)
class Ask:
    """One request: the answer ``turn`` of the trace ``trace``, at ``time`` in seconds where the source says it."""

    trace: str
    turn: int
    time: float | None = None


@dataclass
class DraftGroup:
    """Traces that were served together."""

    source: SourceFile
    name: str
    traces: dict[str, DraftTrace] = field(default_factory=dict)
    asks: list[Ask] = field(default_factory=list)

    def trace(self, name: str) -> DraftTrace:
        """The trace of that name, which may be new."""
        return self.traces.setdefault(name, DraftTrace(name))

    def ask(self, trace: DraftTrace, turn: int, time: float | None = None) -> None:
        """The next request: for an answer, in seconds from any start; None where the source has no times."""
        self.asks.append(Ask(trace.name, turn, time))

    def ordered(self) -> Sequence[Ask]:
        """By time if every request has one, else as they came."""
        if any(ask.time is None for ask in self.asks):
            return self.asks
        return sorted(self.asks, key=lambda ask: ask.time or 0.0)
