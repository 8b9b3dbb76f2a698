"""Our own trace files: groups pass as they are; with an option that changes them they are drafted anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Branch, Group, Rewind
from replaycheck.traces.read import located, scan

from .api import Context, Head, Importer
from .draft import DraftGroup
from .log import Log
from .source import SourceFile
from .words import literal

__all__ = ["IMPORTER"]


def _recognise(head: Head) -> str | None:
    good = head.all_have("schema") and all(
        str(each["schema"]).startswith("replaycheck.trace/") for each in head.records
    )
    return "'schema' is replaycheck.trace" if good else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup | Group]:
    options = context.options
    changed = options.anonymise or options.scale < 1 or options.max_tokens is not None
    for source in sources:
        for line in scan(source.path):
            if line.group is None or line.problems:
                raise UsageError(located(source.path, line.number, line.problems[0]))
            yield _drafted(source, line.group, context.log) if changed else line.group


def _drafted(source: SourceFile, group: Group, log: Log) -> DraftGroup:
    draft = DraftGroup(source, group.group)
    numbers: dict[tuple[str, str], int] = {}
    for trace in group.traces:
        made = draft.trace(trace.id)
        for turn in trace.turns:
            parent = None if turn.parent is None else numbers[trace.id, turn.parent]
            numbers[trace.id, turn.id] = made.add(parent, turn.role, literal(turn.text, log))
        for event in trace.events:
            if not isinstance(event, Branch | Rewind):
                log.drop(f"event that counts tokens: {event.kind}")
    for request in group.requests:
        draft.ask(draft.traces[request.trace], numbers[request.trace, request.turn])
    return draft


IMPORTER = Importer("jsonl", "replaycheck's own trace files", _recognise, _read)
