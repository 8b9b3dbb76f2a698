"""Open-Assistant message trees: a tree a line; a prompt with several answers, an answer with several follow-ups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replaycheck.schema.trace import Role

from .api import Context, Head, Importer
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .source import SourceFile
from .threads import Message, Thread

__all__ = ["IMPORTER", "MAX_DEPTH"]

#: Messages of a path. The trees of the project have at most 10; JSON itself can't nest much deeper than this.
MAX_DEPTH = 200

_ROLES: dict[str, Role] = {"prompter": "user", "assistant": "assistant"}


def _recognise(head: Head) -> str | None:
    return "every record has 'message_tree_id' and 'prompt'" if head.all_have("message_tree_id", "prompt") else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        for record in source.records():
            yield _group(source, record, context.log)


def _group(source: SourceFile, record: Fields, log: Log) -> DraftGroup:
    name = record.name("message_tree_id")
    group = DraftGroup(source, name)
    thread = Thread(group, name, log)
    seen: set[str] = set()
    waiting: list[tuple[Fields, int | None, int]] = [(record.object("prompt"), None, 1)]
    while waiting:
        message, parent, depth = waiting.pop()
        if depth > MAX_DEPTH:
            message.place.fail(f"more than {MAX_DEPTH} messages below each other; no tree has so many, correct it")
        if message.get("deleted"):
            log.drop("deleted message and what follows it")
            continue
        _refuse_twice(message, seen)
        number = thread.add(parent, Message(_role(message), message.text("text")))
        if number is not None:
            replies = list(message.objects("replies", []))
            waiting += [(reply, number, depth + 1) for reply in reversed(replies)]
    thread.close()
    return group


def _refuse_twice(message: Fields, seen: set[str]) -> None:
    name = message.name("message_id")
    if name in seen:
        message.fail("message_id", f"{name[:40]!r} is there twice; allowed: an id for each message of a tree")
    seen.add(name)


def _role(message: Fields) -> Role:
    role = message.text("role")
    if role not in _ROLES:
        message.fail("role", f"{role[:40]!r} is unknown; allowed: 'prompter', 'assistant'")
    return _ROLES[role]


IMPORTER = Importer("oasst", "Open-Assistant message trees, JSON lines", _recognise, _read)
