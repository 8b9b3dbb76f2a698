"""Mooncake: a request a line, prompts as ids of 512-token blocks. Ids are chained: an id stands for all that leads to it.

The last, partial block has an id, too (ceil). There are no sessions: what requests share is in their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .api import Context, Head, Importer
from .blocks import Call, block_spans
from .draft import DraftGroup
from .fields import Fields
from .source import SourceFile
from .windows import grow_by_root

__all__ = ["BLOCK", "IMPORTER", "check_ceil"]

#: Tokens of a block in the published traces.
BLOCK = 512

_SCOPE = "mooncake"


def _recognise(head: Head) -> str | None:
    good = head.all_have("timestamp", "input_length", "output_length", "hash_ids")
    other = head.first("session_id") or head.first("chat_id")
    return "every record has 'input_length', 'hash_ids' and no session" if good and not other else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        calls = (_call(record, number) for number, record in enumerate(source.records()))
        yield from grow_by_root(source, calls, context)


def _call(record: Fields, number: int) -> Call:
    ids, length = record.integers("hash_ids"), record.integer("input_length", 1)
    check_ceil(record, ids, length, BLOCK)
    time = record.time("timestamp")
    return Call(
        spans=tuple(block_spans(ids, length, BLOCK, _SCOPE)),
        blocks=length // BLOCK,
        out=record.integer("output_length"),
        role="user",
        session=f"{_SCOPE} {number}",
        number=0,
        time=None if time is None else time / 1000,
    )


def check_ceil(record: Fields, ids: Sequence[int], length: int, block: int) -> None:
    """An id for each block, the partial one included."""
    if len(ids) != -(-length // block):
        record.fail(
            "hash_ids",
            f"{len(ids)} ids for 'input_length' = {length}; allowed: {-(-length // block)}, one for each block of "
            f"{block} tokens, the partial one included; correct one of them",
        )


IMPORTER = Importer("mooncake", "Mooncake traces: requests as ids of 512-token blocks, JSON lines", _recognise, _read)
