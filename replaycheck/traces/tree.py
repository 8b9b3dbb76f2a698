"""The tree of a trace as token paths: what a request's prompt is, where its answer lies, and which branch it is on.

A path is ``[BOS]`` and the tokens of its turns, so a position counts from BOS = 0. Branches are numbered in file order:
the first child of a turn continues its parent's branch, each later sibling opens the next one; the root is on branch 0.
(BOS counts as the parent of turns without one.) Nothing here looks at text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Group, Trace, Turn
from replaycheck.traces.vocabulary import BOS

__all__ = ["Node", "TokenPath", "TraceTree", "request_paths"]


class Node(NamedTuple):
    """One turn of a path: its tokens are ``tokens[start:end]`` of the path."""

    turn: str
    start: int
    end: int


@dataclass(frozen=True)
class TokenPath:
    """The tokens from BOS to the end of one answer."""

    trace: str
    turn: str
    #: number of the branch that the answer is on
    branch: int
    #: assistant turns before this answer on its path
    turn_index: int
    #: every turn of the path with its place, the answer last; BOS (token 0) belongs to none
    nodes: tuple[Node, ...]
    tokens: tuple[int, ...]
    #: tokens up to and including the answer's role token; the answer's content and END are ``tokens[prompt:end]``
    prompt: int

    @property
    def end(self) -> int:
        return len(self.tokens)

    @property
    def answer(self) -> tuple[int, ...]:
        """The scored tokens: content and END."""
        return self.tokens[self.prompt :]


@dataclass(frozen=True)
class TraceTree:
    """A valid trace, indexed by turn."""

    trace: Trace

    @cached_property
    def turns(self) -> Mapping[str, Turn]:
        return {turn.id: turn for turn in self.trace.turns}

    @cached_property
    def children(self) -> Mapping[str | None, tuple[str, ...]]:
        """The turns below a turn in file order; those without a parent are below None."""
        below: dict[str | None, list[str]] = {}
        for turn in self.trace.turns:
            below.setdefault(turn.parent, []).append(turn.id)
        return {parent: tuple(names) for parent, names in below.items()}

    @cached_property
    def branches(self) -> Mapping[str, int]:
        """The branch of each turn."""
        branch: dict[str | None, int] = {None: 0}
        opened = 0
        for turn in self.trace.turns:
            if turn.id == self.children[turn.parent][0]:
                branch[turn.id] = branch[turn.parent]
            else:
                opened += 1
                branch[turn.id] = opened
        return {name: number for name, number in branch.items() if name is not None}

    @cached_property
    def starts(self) -> Mapping[str, int]:
        """The position of each turn's role token on its path."""
        ends: dict[str | None, int] = {None: 1}
        for turn in self.trace.turns:
            ends[turn.id] = ends[turn.parent] + len(turn.tokens)
        return {turn.id: ends[turn.parent] for turn in self.trace.turns}

    def lineage(self, turn: str) -> tuple[Turn, ...]:
        """The turns from the root to ``turn``, both included."""
        path = []
        name: str | None = turn
        while name is not None:
            path.append(self.turns[name])
            name = path[-1].parent
        return tuple(reversed(path))

    def path(self, turn: str) -> TokenPath:
        """The path of the answer ``turn``. Raises :class:`UsageError` if that is no assistant turn of this trace."""
        if turn not in self.turns or self.turns[turn].role != "assistant":
            raise UsageError(
                f"{turn!r} is no assistant turn of trace {self.trace.id!r}; `replaycheck trace show` lists them"
            )
        lineage = self.lineage(turn)
        return TokenPath(
            trace=self.trace.id,
            turn=turn,
            branch=self.branches[turn],
            turn_index=sum(each.role == "assistant" for each in lineage[:-1]),
            nodes=tuple(self._node(each) for each in lineage),
            tokens=(BOS, *(token for each in lineage for token in each.tokens)),
            prompt=self.starts[turn] + 1,
        )

    def _node(self, turn: Turn) -> Node:
        start = self.starts[turn.id]
        return Node(turn.id, start, start + len(turn.tokens))


def request_paths(group: Group) -> tuple[TokenPath, ...]:
    """The path of each request of a group, in the order of the requests."""
    trees = {trace.id: TraceTree(trace) for trace in group.traces}
    return tuple(trees[request.trace].path(request.turn) for request in group.requests)
