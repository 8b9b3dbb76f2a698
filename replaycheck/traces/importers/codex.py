"""Codex rollouts: a record a line; ``response_item`` records are the conversation, in order.

An answer is what the model gave in a row: reasoning, words and calls. A ``compacted`` record replaces the history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .api import Context, Head, Importer
from .content import call_text, iso_time, part_texts, role_of
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .source import SourceFile
from .threads import Message, Thread

__all__ = ["IMPORTER"]

_TYPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
}
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


@dataclass
class _Rollout:
    """The conversation so far; ``parts`` is the answer that isn't over."""

    thread: Thread
    log: Log
    last: int | None = None
    model: str = ""
    time: float | None = None
    parts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    open: bool = False

    def answer(self, record: Fields, text: str, reasoning: str = "") -> None:
        if not self.open:
            self.time = iso_time(record, "timestamp")
        self.open = True
        self.parts += [text] if text else []
        self.reasoning += [reasoning] if reasoning else []

    def say(self, message: Message) -> None:
        self.finish()
        self.last = self.thread.add(self.last, message)

    def finish(self) -> None:
        """Ask for the answer that is over."""
        if self.open:
            text, reasoning = "\n".join(self.parts), "\n".join(self.reasoning)
            self.last = self.thread.add(self.last, Message("assistant", text, reasoning, self.model, self.time))
        self.parts, self.reasoning, self.open = [], [], False


def _recognise(head: Head) -> str | None:
    good = head.all_have("type", "payload") and all(str(record["type"]) in _TYPES for record in head.records)
    return "every record has 'type' and 'payload' of a Codex rollout" if good else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        group = DraftGroup(source, source.path.stem)
        rollout = _Rollout(Thread(group, "rollout", context.log), context.log)
        for record in source.records():
            _take(rollout, record)
        rollout.finish()
        rollout.thread.close()
        yield group


def _take(rollout: _Rollout, record: Fields) -> None:
    kind, payload = record.text("type"), record.object("payload")
    if kind == "response_item":
        _item(rollout, record, payload)
    elif kind == "compacted":
        _compacted(rollout, payload)
    elif kind == "turn_context" and "model" in payload:
        rollout.finish()
        rollout.model = payload.text("model")
    elif kind == "session_meta" and _instructions(payload):
        rollout.say(Message("system", _instructions(payload)))
    else:
        rollout.log.drop(f"record that is no message: {kind[:40]}")


def _instructions(payload: Fields) -> str:
    if "base_instructions" in payload and isinstance(payload.get("base_instructions"), dict):
        return payload.object("base_instructions").text("text", "")
    return payload.text("instructions", "") if isinstance(payload.get("instructions"), str) else ""


def _item(rollout: _Rollout, record: Fields, item: Fields) -> None:
    kind = item.text("type")
    if kind == "message":
        text = "\n".join(part_texts(item, "content", rollout.log))
        role = role_of(item)
        if role == "assistant":
            rollout.answer(record, text)
        else:
            rollout.say(Message(role, text))
    elif kind == "reasoning":
        summary = "\n".join(part.text("text", "") for part in item.objects("summary", []))
        if not summary:
            rollout.log.drop("thinking whose words aren't in the source")
        rollout.answer(record, "", summary)
    elif kind in _CALLS:
        rollout.answer(record, call_text(item.text("name", kind), item.get(_CALLS[kind])))
    elif kind in _OUTPUTS:
        rollout.say(Message("tool", _output(item, rollout.log)))
    else:
        rollout.log.drop(f"item without words: {kind[:40]}")


def _output(item: Fields, log: Log) -> str:
    value = item.get("output")
    if isinstance(value, dict):
        return item.object("output").text("content", "")
    return "\n".join(part_texts(item, "output", log))


def _compacted(rollout: _Rollout, payload: Fields) -> None:
    """The history is replaced, by a list of messages or by a summary."""
    rollout.finish()
    rollout.log.note("compaction: the prompt starts anew")
    rollout.last = None
    history = [
        Message(role_of(each), "\n".join(part_texts(each, "content", rollout.log)))
        for each in payload.objects("replacement_history", [])
        if each.text("type", "message") == "message"
    ]
    for message in history or [Message("user", payload.text("message", ""))]:
        number = rollout.thread.add(rollout.last, message, ask=False)
        rollout.last = rollout.last if number is None else number


IMPORTER = Importer("codex", "Codex rollouts, JSON lines", _recognise, _read)
