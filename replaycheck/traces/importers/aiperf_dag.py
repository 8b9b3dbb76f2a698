"""AIPerf ``dag_jsonl``: a session a line; a turn may fork sessions, which go on from its answer, or spawn fresh ones.

The file holds what is sent, not what came back: answers are made, ``max_tokens`` long. Each session that no other one
starts is the root of a group; spawned sessions are traces of their own in it. Sessions that run side by side take turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .api import Context, Head, Importer
from .content import openai_messages, system_with_tools
from .draft import DraftGroup
from .fields import Fields
from .source import SourceFile
from .words import literal, made

__all__ = ["IMPORTER"]

#: Tokens of an answer without ``max_tokens``.
_ANSWER = 128
#: Sessions of a group: the same one can be spawned by many.
_MAX_SESSIONS = 10_000

_WHOLE = "message_array_with_responses"


@dataclass
class _Running:
    """A session at its next turn."""

    record: Fields
    trace: str
    parent: int | None
    turn: int = 0
    above: tuple[str, ...] = ()


@dataclass
class _Served:
    """One root's group while its requests are put in order."""

    sessions: Mapping[str, Fields]
    group: DraftGroup
    context: Context
    queue: deque[_Running] = field(default_factory=deque)
    count: int = 0

    def start(self, at: Fields, name: str, above: tuple[str, ...], trace: str | None, parent: int | None) -> None:
        """Queue a session; ``trace`` is None for one with a history of its own."""
        if name not in self.sessions:
            at.place.fail(f"session {name[:40]!r} isn't in the file; allowed: the session_id of another line")
        if name in above:
            at.place.fail(f"session {name[:40]!r} starts itself; allowed: a tree of sessions, take the circle out")
        self.count += 1
        if self.count > _MAX_SESSIONS:
            at.place.fail(f"more than {_MAX_SESSIONS} sessions are started from one root; split the file")
        own = name if name not in self.group.traces and trace is None else f"{name}-{self.count}"
        self.queue.append(_Running(self.sessions[name], own if trace is None else trace, parent, 0, (*above, name)))


def _recognise(head: Head) -> str | None:
    record = head.first("session_id", "turns") or head.first("session_id", "orchestrator")
    turns = record.get("turns") if record else None
    messages = isinstance(turns, list) and any(isinstance(turn, dict) and "messages" in turn for turn in turns)
    good = record is not None and (messages or record.get("orchestrator") is True)
    return "records have 'session_id' and 'turns' of 'messages'" if good and head.all_have("session_id") else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        sessions: dict[str, Fields] = {}
        for record in source.records():
            name = record.name("session_id")
            if name in sessions:
                record.fail("session_id", f"{name[:40]!r} is there twice; allowed: each session once")
            sessions[name] = record
        started = {child for record in sessions.values() for child in _children(record)}
        if sessions and not sessions.keys() - started:
            next(iter(sessions.values())).place.fail("no session is a root; each is started by another one")
        for name, record in sessions.items():
            if name not in started:
                served = _Served(sessions, DraftGroup(source, name), context)
                served.start(record, name, (), None, None)
                while served.queue:
                    _step(served, served.queue.popleft())
                yield served.group


def _children(record: Fields) -> Iterator[str]:
    """The sessions that one starts."""
    yield from (str(each) for each in record.array("pre_session_spawns", []))
    yield from _spawned(record)
    if isinstance(record.get("rounds"), list):
        for part in record.objects("rounds"):
            yield from _spawned(part)
    for turn in record.objects("turns", []):
        yield from _spawned(turn)
        yield from _forked(turn)


def _spawned(turn: Fields) -> Iterator[str]:
    for index, each in enumerate(turn.array("spawns", [])):
        if isinstance(each, str):
            yield each
        else:
            yield from map(str, Fields.of(each, turn.place.inside(f"spawns[{index}]")).array("children"))


def _forked(turn: Fields) -> Iterator[str]:
    for index, each in enumerate(turn.array("forks", [])):
        yield each if isinstance(each, str) else Fields.of(each, turn.place.inside(f"forks[{index}]")).text("child")


def _step(served: _Served, running: _Running) -> None:
    """The next turn of a session, and what it starts."""
    record, above = running.record, running.above
    if running.turn == 0:
        for child in record.array("pre_session_spawns", []):
            served.start(record, str(child), above, None, None)
    turns = list(record.objects("turns", []))
    if not turns:
        _orchestrate(served, record, above)
        return
    turn = turns[running.turn]
    answer = _answer(served, running, turn)
    for child in _spawned(turn):
        served.start(turn, child, above, None, None)
    for child in _forked(turn):
        served.start(turn, child, above, running.trace, answer)
    if running.turn + 1 < len(turns):
        served.queue.append(_Running(record, running.trace, answer, running.turn + 1, above))


def _orchestrate(served: _Served, record: Fields, above: tuple[str, ...]) -> None:
    served.context.log.note("orchestrator without a request of its own; the sessions that it starts follow each other")
    rounds = record.objects("rounds") if isinstance(record.get("rounds"), list) else [record]
    for part in rounds:
        for child in _spawned(part):
            served.start(part, child, above, None, None)


def _answer(served: _Served, running: _Running, turn: Fields) -> int:
    """Say what the turn sends and ask for its answer."""
    log, trace = served.context.log, served.group.trace(running.trace)
    parent = None if running.record.text("context_mode", "") == _WHOLE else running.parent
    for message in system_with_tools(openai_messages(turn, "messages", log), turn.get("tools"), log):
        if message.role == "assistant" and parent is None:
            log.drop("assistant message before any prompt")
        else:
            parent = trace.say(parent, message.role, literal(message.text, log), message.text)
    if parent is None:
        turn.fail("messages", "says nothing; allowed: at least one message that isn't the assistant's")
    length = turn.integer("max_tokens", 1, default=_ANSWER)
    log.note("answer isn't in the format and was made, max_tokens long")
    session = running.above[-1]
    answer = trace.add(parent, "assistant", made(length - 1, "aiperf", session, running.trace, running.turn))
    served.group.ask(trace, answer)
    return answer


IMPORTER = Importer("dag_jsonl", "AIPerf dag_jsonl: sessions that fork and spawn, JSON lines", _recognise, _read)
