"""SGLang token traces: a request a line as the token ids of another vocabulary.

Each id becomes one character, the same for the same id, so that lengths and shared prefixes stay. 64 characters stand for
many ids: two prompts that part at different ids may go on alike for a token or two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .api import Context, Head, Importer
from .blocks import Call, Span, grow
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .source import SourceFile
from .windows import windows

__all__ = ["IMPORTER"]

#: Tokens of a group: each is a node while its tree is built, about 0.5 kB.
_MAX_TOKENS = 200_000


def _recognise(head: Head) -> str | None:
    lists = all(isinstance(record.get("input_tokens"), list) for record in head.records)
    return "every record has the list 'input_tokens'" if head.all_have("input_tokens") and lists else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        context.log.note("token ids are of another vocabulary; each became one character")
        calls = (_call(record, number) for number, record in enumerate(source.records()))
        for number, window in enumerate(windows(calls, context.options.group_size, _MAX_TOKENS), 1):
            group = DraftGroup(source, f"window-{number}")
            _note_answers(window, context.log)
            grow(group, group.trace("tokens"), window, context.log)
            yield group


def _call(record: Fields, number: int) -> Call:
    ids = record.integers("input_tokens")
    if not ids:
        record.fail("input_tokens", "is empty; allowed: at least one token id")
    given = record.integers("output_tokens") if "output_tokens" in record else ()
    return Call(
        spans=tuple(map(_span, ids)),
        blocks=len(ids),
        out=len(given) if "output_tokens" in record else record.integer("num_output_tokens"),
        role="user",
        session=f"sglang {number}",
        number=number,
        time=record.time("ts"),
        answer=tuple(map(_span, given)),
    )


def _span(token: int) -> Span:
    return Span(("sglang token", token), 0, 1)


def _note_answers(window: Sequence[Call], log: Log) -> None:
    """The drift of the source: does a later prompt that goes on from this one hold the answer's very tokens?"""
    seen: list[Call] = []
    for call in window:
        for before in seen[-8:]:
            n = len(before.spans)
            if before.answer and len(call.spans) > n and call.spans[:n] == before.spans:
                same = call.spans[n : n + len(before.answer)] == before.answer
                log.note(
                    "answer's ids are in a later prompt" if same else "answer's ids aren't in the prompt that goes on"
                )
        seen.append(call)


IMPORTER = Importer("sglang", "SGLang token traces: prompts as token ids, JSON lines", _recognise, _read)
