"""How each request of a group relates to those before it: what it continues, what it shares, how far back that lies.

Shares are counted by turns, as plans do: two prompts share the turns of their paths that are the same. What a
state could be restored from at best is the longest prefix that an earlier request of the same trace has computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile

from replaycheck.schema.trace import Group
from replaycheck.traces.tree import TokenPath, request_paths

__all__ = ["Kind", "Relation", "relations"]


#: Share of a prompt that is kept by more than a pull-back leaves.
_TRIMMED = 0.9


class Kind(StrEnum):
    """What a request does with what its trace has asked for so far."""

    FIRST = "first"
    #: the previous request's prompt and answer, and more
    APPEND = "append"
    #: the previous request's prompt without its answer, and more: another answer in its place, or none
    REPLACE = "replace"
    #: all but less than a tenth of the previous request's prompt, and more: its end was edited, or isn't in a whole block
    TRIM = "trim"
    #: an earlier part of the previous request's prompt, and more
    PULL_BACK = "pull-back"
    #: shares more with an older request than with the previous one
    RETURN = "return"
    #: a prompt that was asked before, for another answer
    REGENERATE = "regenerate"
    #: the same prompt and answer as before
    AGAIN = "again"


@dataclass(frozen=True)
class Relation:
    """A request beside those before it. Lengths in tokens, distances in requests.

    Attributes:
        shared: tokens of the prompt that an earlier request of the trace has computed. previous: those that the trace's
            previous request has; None for a first request.
        back: how many requests of the group ago the one was that shares most. own_back: of the trace. None: none shares.
        kept: share of that request's prompt that is kept; 1.0 and more: all of it.
        whole: its answer is kept, too.
        static: tokens of the system turns that the prompt begins with, BOS included; 0 without one.
        tool: the prompt ends with a tool's turn.
        switched: the group's previous request was of another trace.
    """

    trace: str
    kind: Kind
    prompt: int
    output: int
    shared: int
    previous: int | None
    back: int | None
    own_back: int | None
    kept: float
    whole: bool
    static: int
    tool: bool
    switched: bool

    @property
    def new(self) -> int:
        return self.prompt - self.shared


@dataclass
class _Trace:
    """What a trace has asked for so far: by turn, the last request whose path has it."""

    paths: list[TokenPath] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def add(self, path: TokenPath, number: int) -> None:
        self.last.update((node.turn, len(self.paths)) for node in path.nodes)
        self.asked[path.turn] += 1
        self.paths.append(path)
        self.numbers.append(number)


def relations(group: Group) -> Iterator[Relation]:
    """One a request, in order."""
    traces = {trace.id: _Trace() for trace in group.traces}
    roles = {trace.id: {turn.id: turn.role for turn in trace.turns} for trace in group.traces}
    before: str | None = None
    for number, path in enumerate(request_paths(group)):
        found = [roles[path.trace][node.turn] for node in path.nodes]
        leading = len(list(takewhile(lambda role: role == "system", found)))
        yield _relation(
            traces[path.trace],
            path,
            number,
            static=path.nodes[leading - 1].end if leading else 0,
            tool=len(found) > 1 and found[-2] == "tool",
            switched=before not in (None, path.trace),
        )
        traces[path.trace].add(path, number)
        before = path.trace


def _relation(trace: _Trace, path: TokenPath, number: int, static: int, tool: bool, switched: bool) -> Relation:
    best = _best(trace, path)
    # A prompt of which no turn was seen shares BOS, and perhaps a role token, with the previous one.
    source = trace.paths[best] if best is not None else trace.paths[-1] if trace.paths else None
    shared = _shared(source, path) if source else 0
    own_back = len(trace.paths) - best if best is not None else None
    return Relation(
        trace=path.trace,
        kind=Kind.FIRST if source is None else _kind(trace, path, source, shared, own_back),
        prompt=path.prompt,
        output=path.end - path.prompt - 1,
        shared=shared,
        previous=_shared(trace.paths[-1], path) if trace.paths else None,
        back=number - trace.numbers[best] if best is not None else None,
        own_back=own_back,
        kept=min(shared / source.prompt, 1.0) if source else 0.0,
        whole=source is not None and shared >= source.end,
        static=static,
        tool=tool,
        switched=switched,
    )


def _kind(trace: _Trace, path: TokenPath, source: TokenPath, shared: int, own_back: int | None) -> Kind:
    if trace.asked[path.turn]:
        return Kind.AGAIN
    if shared == path.prompt:
        return Kind.REGENERATE
    if own_back and own_back > 1:
        return Kind.RETURN
    if shared >= source.end:
        return Kind.APPEND
    # The prompt's last token is the answer's role, which what comes in its place may not have.
    if shared >= source.prompt - 1:
        return Kind.REPLACE
    return Kind.TRIM if shared > _TRIMMED * source.prompt else Kind.PULL_BACK


def _best(trace: _Trace, path: TokenPath) -> int | None:
    """The last request that has the deepest turn of this path that any has; of the same prompt, the last of those."""
    for node in reversed(path.nodes):
        if node.turn in trace.last:
            return trace.last[node.turn]
    return None


def _shared(source: TokenPath, path: TokenPath) -> int:
    """Tokens of the prompt of ``path`` that ``source`` begins with; two answers to one turn share their role token."""
    end = 1
    for mine, theirs in zip(path.nodes, source.nodes, strict=False):
        if mine.turn != theirs.turn:
            same = path.tokens[mine.start] == source.tokens[theirs.start]
            return min(end + same, path.prompt)
        end = mine.end
    return min(end, path.prompt)
