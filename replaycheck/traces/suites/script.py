"""Write a trace turn by turn: ids are given, answers are asked for in the order in which they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from replaycheck.schema.trace import BatchMates, Branch, Event, Fork, Group, Preemption, Request, Rewind, Role
from replaycheck.traces.specs import Answer, Derived, GroupSpec, Node, Say, TraceSpec

__all__ = ["Script", "group_of"]

_LETTERS = {"system": "s", "user": "u", "assistant": "a", "tool": "t"}


class Script:
    """A trace under way.

    Ids are a role's letter and a number that counts all turns. ``requests`` grows with each answer and may be changed.
    """

    def __init__(self, trace: str, cluster: str | None = None) -> None:
        self.trace = trace
        self.requests: list[Request] = []
        self._cluster = cluster
        self._turns: list[Node] = []
        self._events: list[Event] = []

    def _name(self, role: str) -> str:
        return f"{_LETTERS[role]}{len(self._turns)}"

    def say(self, role: Role, text: str, after: str | None = None, ends_at: int | None = None) -> str:
        """A turn of ours. ends_at: tokens of the prompt that it ends; the text is cut or repeated to fit."""
        self._turns.append(Say(self._name(role), after, role, text, ends_at))
        return self._turns[-1].id

    def answer(
        self, after: str, limit: int, least: int = 0, fork: tuple[str, int] | None = None, asked: bool = True
    ) -> str:
        """An answer to be sampled; with ``fork`` it continues another one's state after so many tokens."""
        self._turns.append(Answer(self._name("assistant"), after, limit, least, fork))
        name = self._turns[-1].id
        if fork is not None:
            self.event(Fork(kind="fork", turn=name, source=fork[0], offset=fork[1]))
        if asked:
            self.ask(name)
        return name

    def exchange(self, text: str, after: str | None, limit: int, least: int = 0, role: Role = "user") -> str:
        """A user's or a tool's turn and its answer; returns the answer."""
        return self.answer(self.say(role, text, after), limit, least)

    def derive(
        self,
        role: Role,
        source: str,
        after: str | None,
        make: Callable[[str], str] = lambda text: text,
        trace: str | None = None,
    ) -> str:
        """A turn made from another one's text; by itself a copy."""
        self._turns.append(Derived(self._name(role), after, role, (trace or self.trace, source), make))
        return self._turns[-1].id

    def ask(self, turn: str) -> None:
        """One more request for an answer."""
        self.requests.append(Request(trace=self.trace, turn=turn))

    def event(self, event: Event) -> None:
        self._events.append(event)

    def branches(self, turn: str) -> None:
        """Mark that the conversation goes on in more than one way from here."""
        self.event(Branch(kind="branch", turn=turn))

    def rewinds(self, turn: str, to: str) -> None:
        """Mark that the client went back."""
        self.event(Rewind(kind="rewind", turn=turn, to=to))

    def preempts(self, turn: str, after: int, swap: bool) -> None:
        self.event(Preemption(kind="preemption", turn=turn, after=after, resume="swap" if swap else "recompute"))

    def batches(self, turns: Iterable[str]) -> None:
        """These answers run in one batch."""
        first, *mates = turns
        self.event(BatchMates(kind="batch", turn=first, mates=tuple(mates)))

    def spec(self) -> TraceSpec:
        return TraceSpec(self.trace, tuple(self._turns), tuple(self._events), self._cluster)


def group_of(
    archetype: str,
    *scripts: Script,
    name: str = "",
    requests: Iterable[Request] | None = None,
    finish: Callable[[Group, int], Group] | None = None,
) -> GroupSpec:
    """A group of finished scripts, named after the first; by default one script's requests after the other's."""
    asked = [each for script in scripts for each in script.requests] if requests is None else requests
    return GroupSpec(
        name or scripts[0].trace, archetype, tuple(script.spec() for script in scripts), tuple(asked), finish
    )
