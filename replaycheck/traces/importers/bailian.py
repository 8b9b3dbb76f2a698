"""Qwen-Bailian: a request a line with the chat it goes on, prompts as ids of 16-token blocks, the partial one included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .api import Context, Head, Importer
from .blocks import Call, block_spans
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .mooncake import check_ceil
from .source import SourceFile
from .windows import grow_by_root

__all__ = ["BLOCK", "IMPORTER"]

#: Tokens of a block.
BLOCK = 16

_SCOPE = "bailian"
_NO_PARENT = -1
#: No id comes near it; Python's integers have no limit of their own.
_MAX_ID = 10**18


@dataclass
class _Window:
    """The chats of a group: a request, by its id, belongs to the session of the request that it goes on."""

    log: Log
    sessions: dict[int, str] = field(default_factory=dict)

    def named(self, call: Call, chat: int, parent: int) -> Call:
        if parent == _NO_PARENT:
            session = f"{_SCOPE} {chat}"
        elif parent in self.sessions:
            session = self.sessions[parent]
        else:
            self.log.note("request goes on one that isn't in its group")
            session = f"{_SCOPE} {chat}"
        self.sessions[chat] = session
        return replace(call, session=session)


def _recognise(head: Head) -> str | None:
    good = head.all_have("chat_id", "parent_chat_id", "input_length", "hash_ids")
    return "every record has 'chat_id', 'parent_chat_id' and 'hash_ids'" if good else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        chats: dict[int, tuple[int, int]] = {}

        def prepare(window: list[Call], chats: dict[int, tuple[int, int]] = chats) -> list[Call]:
            found = _Window(context.log)
            return [found.named(call, *chats.pop(call.number)) for call in window]

        yield from grow_by_root(source, _calls(source, chats), context, prepare)


def _calls(source: SourceFile, chats: dict[int, tuple[int, int]]) -> Iterator[Call]:
    for number, record in enumerate(source.records()):
        chats[number] = (
            record.integer("chat_id", 0, _MAX_ID),
            record.integer("parent_chat_id", _NO_PARENT, _MAX_ID),
        )
        yield _call(record, number)


def _call(record: Fields, number: int) -> Call:
    ids, length = record.integers("hash_ids"), record.integer("input_length", 1)
    check_ceil(record, ids, length, BLOCK)
    return Call(
        spans=tuple(block_spans(ids, length, BLOCK, _SCOPE)),
        blocks=length // BLOCK,
        out=record.integer("output_length"),
        role="user",
        session="",
        number=number,
        time=record.time("timestamp"),
    )


IMPORTER = Importer("bailian", "Qwen-Bailian: chats as ids of 16-token blocks, JSON lines", _recognise, _read)
