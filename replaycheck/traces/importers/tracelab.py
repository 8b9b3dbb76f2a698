"""TraceLab rounds: a call of a model a line, with lengths and the prefix that the provider's cache really gave.

No ids and no words: a prompt begins with the measured prefix of the one before it in its session; the rest is text of its
own. So a miss of the provider's cache reads as a prompt that goes back, which is what the server had to compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from .api import Context, Head, Importer
from .blocks import Call, Span, grow
from .content import iso_time
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .source import SourceFile

__all__ = ["IMPORTER"]


def _recognise(head: Head) -> str | None:
    good = head.all_have("round_index", "input_tokens_total", "prefix_tokens", "output_tokens")
    return "every record has 'round_index' and 'prefix_tokens'" if good else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        for name, rounds in groupby(source.records(), key=lambda record: record.text("session_id")):
            yield _group(source, name, rounds, context.log)


def _group(source: SourceFile, name: str, rounds: Iterator[Fields], log: Log) -> DraftGroup:
    """One session; another model's rounds are a trace of their own, since its state is of no use."""
    group = DraftGroup(source, name)
    calls: dict[str, list[Call]] = {}
    last = None
    for record in rounds:
        model = record.text("model", "")
        if last not in (None, model):
            log.note("model switch: the other model's requests are a trace of their own")
        last = model
        known = calls.setdefault(model, [])
        known.append(_call(record, name, known[-1] if known else None, log))
    for model, part in calls.items():
        grow(group, group.trace(f"session {model}"), part, log)
    return group


def _call(record: Fields, session: str, before: Call | None, log: Log) -> Call:
    length = record.integer("input_tokens_total", 1)
    number = record.integer("round_index")
    prefix = record.integer("prefix_tokens", 0, length)
    shared = _shared(prefix, before, log)
    # At least one token is new: the answer's role token.
    own = Span((session, number), 0, length - sum(span.length for span in shared))
    return Call(
        spans=(*shared, own),
        # Where the cache gives less than it had given, the prompt goes back; the end of a prompt is never in it.
        blocks=len(shared),
        out=record.integer("output_tokens"),
        role="tool" if record.text("first_input_event_type", "") == "tool_result" else "user",
        session=f"{session} {record.text('model', '')}",
        number=number,
        time=_first_time(record),
    )


def _shared(prefix: int, before: Call | None, log: Log) -> list[Span]:
    """The first ``prefix`` tokens of the prompt before."""
    if before is None:
        if prefix:
            log.note("prefix of a session's first prompt was cached by something that isn't in the file")
        return []
    length = sum(span.length for span in before.spans)
    if prefix > length:
        log.note("cached prefix reaches into the answer before; cut at the end of the prompt")
    found, left = [], prefix
    for span in before.spans:
        if left > 0:
            found.append(Span(span.key, span.start, span.start + min(span.length, left)))
            left -= span.length
    return found


def _first_time(record: Fields) -> float | None:
    times = [iso_time(event, "timestamp") for event in record.objects("timing_events", [])]
    return min((time for time in times if time is not None), default=None)


IMPORTER = Importer("tracelab", "TraceLab rounds: lengths and measured cache hits, JSON lines", _recognise, _read)
