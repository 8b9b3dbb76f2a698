"""AIPerf ``dag_jsonl``: what is sent, as sessions; where an answer is followed in more than one way, it forks sessions.

The format can't say that one prompt is answered twice: such answers are forked from the answer before, each with the same
messages; before the first answer they become sessions that share words only. Answers themselves aren't in the format, only
how long they may be. System turns are allowed at the start only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replaycheck.schema.trace import Group, Trace, Turn
from replaycheck.traces.export_openai import note_losses
from replaycheck.traces.importers.log import Log
from replaycheck.traces.tree import TraceTree

__all__ = ["dag_lines"]


@dataclass(frozen=True)
class _Step:
    """An answer that was asked for, and the turns since the one before on its path."""

    answer: Turn
    said: tuple[Turn, ...]


def dag_lines(group: Group, log: Log) -> Iterator[dict[str, object]]:
    """The sessions of each trace, roots first."""
    note_losses(group, log)
    for trace in group.traces:
        yield from _Sessions(group, trace, log).lines()


class _Sessions:
    """The sessions of one trace."""

    def __init__(self, group: Group, trace: Trace, log: Log) -> None:
        self._trace, self._log = trace, log
        asked = {request.turn for request in group.requests if request.trace == trace.id}
        self._next: dict[str | None, list[_Step]] = {}
        tree = TraceTree(trace)
        for turn in trace.turns:
            if turn.id in asked:
                path = tree.lineage(turn.id)[:-1]
                start = next((i + 1 for i in reversed(range(len(path))) if path[i].id in asked), 0)
                before = path[start - 1].id if start else None
                self._next.setdefault(before, []).append(_Step(turn, path[start:]))
        self._names = 0

    def lines(self) -> Iterator[dict[str, object]]:
        roots = self._next.get(None, [])
        self._log.drop("fork before the first answer: sessions share words only", max(0, len(roots) - 1))
        waiting = [(self._name(), step, True) for step in roots]
        while waiting:
            name, step, first = waiting.pop(0)
            turns: list[dict[str, object]] = []
            following = [step]
            while len(following) == 1:
                turns.append(self._turn(following[0], first and not turns))
                following = self._next.get(following[0].answer.id, [])
            if following:
                forks = [(self._name(), each, False) for each in following]
                turns[-1]["forks"] = [fork for fork, _, _ in forks]
                waiting += forks
            yield {"session_id": name, "turns": turns}

    def _name(self) -> str:
        self._names += 1
        return f"{self._trace.id}.{self._names}"

    def _turn(self, step: _Step, first: bool) -> dict[str, object]:
        self._log.drop("words of an answer; the format holds its length")
        messages = [{"role": self._role(turn, first), "content": turn.text} for turn in step.said]
        if not messages:
            self._log.note("answer that follows an answer: an empty user message stands between")
            messages = [{"role": "user", "content": ""}]
        return {"messages": messages, "max_tokens": len(step.answer.tokens) - 1}

    def _role(self, turn: Turn, first: bool) -> str:
        if turn.role == "system" and not (first and turn.parent is None):
            self._log.note("system turn after the first was written as the user's")
            return "user"
        return turn.role
