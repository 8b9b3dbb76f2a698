"""Claude Code session logs (``~/.claude/projects/*/*.jsonl``): a record a line, joined by ``parentUuid`` to a tree.

* One answer of the API is several records with one ``message.id``, and each of its tool calls has a result whose parent is
  the record of that call. Read naively that is a fork for each parallel call; here it is one answer and its results.
* Sidechains (sub-agents) are traces of their own, in the time order of the session.
* A summary after compaction has no parent: the prompt starts anew.
* The system prompt and the definitions of tools aren't in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .anthropic_messages import anthropic_messages, blocks_of
from .api import Context, Head, Importer
from .content import iso_time
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .source import SourceFile
from .threads import Message, Thread

__all__ = ["IMPORTER"]

_SPOKEN = ("user", "assistant")

#: The model of an answer that the client wrote itself, such as an error of the API.
_SYNTHETIC = "<synthetic>"


@dataclass
class _Unit:
    """Records that are one message: an answer, or what was sent back to it."""

    parent: str | None
    records: list[Fields] = field(default_factory=list)
    #: the calls whose results it brings
    results: set[str] = field(default_factory=set)


@dataclass
class _Log:
    """The records of a file as units, and the unit that each uuid belongs to (None: nothing was said before)."""

    unit_of: dict[str, str | None] = field(default_factory=dict)
    units: dict[str, _Unit] = field(default_factory=dict)


def _recognise(head: Head) -> str | None:
    spoken = [record for record in head.records if record.get("type") in _SPOKEN]
    good = bool(spoken) and all("uuid" in each and "parentUuid" in each and "message" in each for each in spoken)
    return "records of type 'user' and 'assistant' have 'uuid', 'parentUuid' and 'message'" if good else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        yield _group(source, context.log)


def _group(source: SourceFile, log: Log) -> DraftGroup:
    found = _Log()
    for record in source.records():
        _place(found, record, log)
    group = DraftGroup(source, source.path.stem)
    log.note("system prompt and definitions of tools aren't in the log; the first turn is the user's")
    speaker = _Speaker(group, log)
    for name, unit in found.units.items():
        speaker.say(name, unit)
    for thread in speaker.threads.values():
        thread.close()
    return group


def _place(found: _Log, record: Fields, log: Log) -> None:
    """File a record under its unit; what is no message hands its parent on."""
    kind = record.text("type", "")
    if "uuid" not in record:
        log.drop(f"record that is no message: {kind[:40]}")
        return
    uuid = record.text("uuid")
    if uuid in found.unit_of:
        record.fail("uuid", f"{uuid[:40]!r} is there twice; allowed: a uuid for each record")
    before = _unit_before(found, record, log)
    if kind not in _SPOKEN:
        log.drop(f"record that is no message: {kind[:40]}")
        found.unit_of[uuid] = before
        return
    results = _results(record)
    name = _unit_name(found, record, before, results)
    unit = found.units.setdefault(name, _Unit(before))
    unit.records.append(record)
    unit.results |= results
    found.unit_of[uuid] = name


def _unit_before(found: _Log, record: Fields, log: Log) -> str | None:
    if "parentUuid" not in record:
        return None
    parent = record.text("parentUuid")
    if parent not in found.unit_of:
        log.note("record whose parent isn't above it in the file; it starts a conversation")
        return None
    return found.unit_of[parent]


def _unit_name(found: _Log, record: Fields, before: str | None, results: set[str]) -> str:
    if record.text("type") == "assistant":
        return f"answer {record.object('message').name('id', record.text('uuid'))}"
    name = f"results of {before}"
    # A result that comes twice belongs to a branch of its own.
    if results and not (name in found.units and found.units[name].results & results):
        return name
    return f"message {record.text('uuid')}"


def _results(record: Fields) -> set[str]:
    content = record.object("message").get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return {str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"}


@dataclass
class _Speaker:
    """Turns units into messages of threads: one for each session of the file and each sub-agent."""

    group: DraftGroup
    log: Log
    threads: dict[str, Thread] = field(default_factory=dict)
    _said: dict[str, tuple[Thread, int | None]] = field(default_factory=dict)
    _sessions: dict[str, str] = field(default_factory=dict)

    def say(self, name: str, unit: _Unit) -> None:
        known = self._said.get(unit.parent) if unit.parent is not None else None
        thread, last = known or (self._thread(unit.records[0]), None)
        for message in self._messages(unit):
            last = thread.add(last, message)
        self._said[name] = thread, last

    def _thread(self, record: Fields) -> Thread:
        """Where a record without a parent starts, or starts anew."""
        if record.get("isSidechain"):
            self.log.note("sub-agent became a trace of its own")
            name = f"agent-{len(self.threads)}"
        else:
            session = record.name("sessionId", "")
            name = self._sessions.setdefault(session, f"session-{len(self._sessions) + 1}")
            if name in self.threads:
                self.log.note("message without a parent: the prompt starts anew, as after a compaction")
        return self.threads.setdefault(name, Thread(self.group, name, self.log))

    def _messages(self, unit: _Unit) -> list[Message]:
        first, bodies = unit.records[0], [record.object("message") for record in unit.records]
        if first.get("type") != "assistant":
            return [message for body in bodies for message in anthropic_messages(body, self.log)]
        body = _merged(bodies)
        model = body.text("model", "")
        if model == _SYNTHETIC:
            self.log.drop("answer that no model gave")
            return []
        return [replace(blocks_of(body, self.log), model=model, time=iso_time(first, "timestamp"))]


def _merged(bodies: Sequence[Fields]) -> Fields:
    """One message with the blocks of several."""
    if len(bodies) == 1:
        return bodies[0]
    blocks: list[object] = []
    for body in bodies:
        content = body.get("content")
        blocks += content if isinstance(content, list) else [{"type": "text", "text": body.text("content", "")}]
    return Fields({**bodies[0].values, "content": blocks}, bodies[0].place)


IMPORTER = Importer("claude-code", "Claude Code session logs, JSON lines", _recognise, _read)
