"""ShareGPT: a list (or lines) of conversations, speakers in ``from``, words in ``value``.

Long conversations are cut into parts ``abc_0``, ``abc_1`` …, which are joined again. A part may begin with the speaker with
whom the one before ended; the repeated message is dropped, as engines' converters do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from replaycheck.schema.trace import Role

from .api import Context, Head, Importer
from .content import system_with_tools
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .source import SourceFile
from .threads import Message, Thread

__all__ = ["IMPORTER"]

_ROLES: dict[str, Role] = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "bing": "assistant",
    "chatgpt": "assistant",
    "bard": "assistant",
    "system": "system",
    "function_call": "assistant",
    "observation": "tool",
    "tool": "tool",
}
_PART = re.compile(r"(?s)(.+)_(\d{1,6})")


@dataclass
class _Conversation:
    """A conversation while its parts are joined; ``part`` is the number of the last one."""

    name: str
    part: int | None
    messages: list[Message] = field(default_factory=list)


def _recognise(head: Head) -> str | None:
    record = head.first("conversations")
    turns = record["conversations"] if record else None
    if not head.all_have("conversations") or not isinstance(turns, list):
        return None
    good = all(isinstance(turn, dict) and "from" in turn and "value" in turn for turn in turns)
    return "every record has 'conversations' of 'from' and 'value'" if good else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        current = None
        for number, record in enumerate(source.records(), 1):
            name, part = _named(record, number)
            if current is None or not _continues(current, name, part):
                if current is not None:
                    yield _group(source, current, context.log)
                current = _Conversation(name, part)
            _append(current, record, part, context.log)
        if current is not None:
            yield _group(source, current, context.log)


def _named(record: Fields, number: int) -> tuple[str, int | None]:
    name = record.name("id", f"conversation-{number}")
    match = _PART.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


def _continues(current: _Conversation, name: str, part: int | None) -> bool:
    return current.name == name and current.part is not None and part == current.part + 1


def _append(current: _Conversation, record: Fields, part: int | None, log: Log) -> None:
    messages = [_message(turn) for turn in record.objects("conversations")]
    if current.messages:
        log.note("part of a conversation was joined to the one before")
        if messages and messages[0].role == current.messages[-1].role:
            log.drop("repeated speaker where two parts of a conversation join")
            messages = messages[1:]
    else:
        if "system" in record:
            messages.insert(0, Message("system", record.text("system")))
        messages = system_with_tools(messages, record.get("tools"), log)
    current.messages += messages
    current.part = part


def _message(turn: Fields) -> Message:
    speaker = turn.text("from")
    if speaker not in _ROLES:
        turn.fail("from", f"{speaker[:40]!r} is unknown; allowed: {', '.join(map(repr, _ROLES))}")
    return Message(_ROLES[speaker], turn.text("value"))


def _group(source: SourceFile, conversation: _Conversation, log: Log) -> DraftGroup:
    group = DraftGroup(source, conversation.name)
    thread = Thread(group, conversation.name, log)
    thread.say(conversation.messages)
    thread.close()
    return group


IMPORTER = Importer("sharegpt", "ShareGPT conversations, JSON lines or a list", _recognise, _read)
