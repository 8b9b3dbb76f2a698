"""What a group is to be, before its answers are known: turns whose text is ours, answers to be sampled, copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replaycheck.schema.trace import Event, Group, Request, Role

__all__ = ["Answer", "Derived", "GroupSpec", "Node", "Say", "TraceSpec"]


@dataclass(frozen=True)
class Say:
    """A turn whose text is ours.

    With ``prompt_ends_at = N``, a prompt that ends with this turn has exactly N tokens: BOS, the path, this turn and
    the role token of the answer. ``text`` is then cut, or continued from ``padding``, to fit.
    """

    id: str
    parent: str | None
    role: Role
    text: str
    prompt_ends_at: int | None = None
    padding: str = ""


@dataclass(frozen=True)
class Answer:
    """An assistant turn to be sampled, of at most ``limit`` tokens; 0 is an empty answer.

    least: END isn't sampled before so many tokens. fork: an answer to the same prompt and how many of its tokens this
    answer begins with; both counts include those.
    """

    id: str
    parent: str
    limit: int
    least: int = 0
    fork: tuple[str, int] | None = None


@dataclass(frozen=True)
class Derived:
    """A turn made from the text of another one: a copy, an answer without its reasoning, a quotation.

    source: (trace, turn) in the same group, a trace that comes first or the own one. ``make`` turns its text into ours.
    """

    id: str
    parent: str | None
    role: Role
    source: tuple[str, str]
    make: Callable[[str], str]


Node = Say | Answer | Derived


@dataclass(frozen=True)
class TraceSpec:
    """A trace before its answers are sampled."""

    id: str
    turns: tuple[Node, ...]
    events: tuple[Event, ...] = ()
    cluster: str | None = None


@dataclass(frozen=True)
class GroupSpec:
    """finish: what is added when the answers are known, such as drafts; it gets the group and the suite's seed."""

    group: str
    archetype: str
    traces: tuple[TraceSpec, ...]
    requests: tuple[Request, ...]
    finish: Callable[[Group, int], Group] | None = None
