"""AIPerf sessions (``mooncake_trace`` with ``session_id``, and ``multi_turn``): a row a turn, or a line a session.

The first row of a session holds the whole prompt, later ones what is new; the answer lies between. So ``input_length`` is a
difference, unlike Mooncake's. A row has one of ``input_length`` (with ``hash_ids`` of 512-token blocks or without),
``text_input``, ``messages`` and ``payload`` (a whole request).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .api import Context, Head, Importer
from .blocks import Call, Span, block_spans, grow, turn_words
from .content import openai_messages, system_with_tools
from .draft import DraftGroup, DraftTrace
from .fields import Fields
from .mooncake import BLOCK, check_ceil
from .source import SourceFile
from .words import Words, literal, made

__all__ = ["IMPORTER"]

_SCOPE = "aiperf"
_CONTENTS = ("input_length", "text_input", "messages", "payload")
#: Tokens of an answer whose length isn't given.
_ANSWER = 128


def _recognise(head: Head) -> str | None:
    if head.all_have("session_id") and head.records and all(any(k in each for k in _CONTENTS) for each in head.records):
        return "every record has 'session_id' and one of 'input_length', 'text_input', 'messages'"
    record = head.first("turns")
    turns = record["turns"] if record else None
    texts = isinstance(turns, list) and any(isinstance(t, dict) and ("text" in t or "texts" in t) for t in turns)
    return "records have 'turns' with 'text'" if texts and head.all_have("turns") else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        for number, rows in enumerate(_windows(_rows(source), context.options.group_size), 1):
            yield _group(source, number, rows, context)


def _rows(source: SourceFile) -> Iterator[tuple[str, Fields]]:
    """Each turn with its session."""
    for number, record in enumerate(source.records(), 1):
        session = record.name("session_id", f"session-{number}")
        if "turns" in record:
            yield from ((session, turn) for turn in record.objects("turns"))
        else:
            yield session, record


def _windows(rows: Iterator[tuple[str, Fields]], size: int) -> Iterator[list[tuple[str, Fields]]]:
    """About ``size`` rows, ended where a session ends."""
    window: list[tuple[str, Fields]] = []
    for session, row in rows:
        if len(window) >= size and window[-1][0] != session:
            yield window
            window = []
        window.append((session, row))
    if window:
        yield window


def _group(source: SourceFile, number: int, rows: Sequence[tuple[str, Fields]], context: Context) -> DraftGroup:
    """First prompts of ids share their blocks; what follows hangs below the session's last answer."""
    group, log = DraftGroup(source, f"window-{number}"), context.log
    last: dict[str, tuple[DraftTrace, int]] = {}
    opening = dict(reversed(rows))
    firsts = {name: _first_call(name, opening[name]) for name in reversed(opening) if "hash_ids" in opening[name]}
    roots: dict[object, list[str]] = {}
    for session, call in firsts.items():
        roots.setdefault(call.spans[0].key, []).append(session)
    for root, sessions in enumerate(roots.values(), 1):
        trace = group.trace(f"tree-{root}")
        answers = grow(group, trace, [firsts[session] for session in sessions], log, ask=False)
        last |= {session: (trace, answer) for session, answer in zip(sessions, answers, strict=True)}
    seen: set[str] = set()
    for session, row in rows:
        if session in last and session not in seen:
            trace, answer = last[session]
        else:
            trace, answer = _follow(group, session, row, last.get(session), context)
        seen.add(session)
        last[session] = trace, answer
        time = row.time("timestamp")
        group.ask(trace, answer, None if time is None else time / 1000)
    return group


def _first_call(session: str, row: Fields) -> Call:
    ids, length = row.integers("hash_ids"), row.integer("input_length", 1)
    check_ceil(row, ids, length, BLOCK)
    return Call(
        spans=tuple(block_spans(ids, length, BLOCK, _SCOPE)),
        blocks=length // BLOCK,
        out=row.integer("output_length", default=_ANSWER),
        role="user",
        session=f"{_SCOPE} {session}",
        number=0,
    )


def _follow(
    group: DraftGroup, session: str, row: Fields, before: tuple[DraftTrace, int] | None, context: Context
) -> tuple[DraftTrace, int]:
    """A turn after the session's last answer, and its answer."""
    trace, parent = before if before is not None else (group.trace(session), None)
    number = len(trace.turns)
    if "input_length" in row:
        parent = trace.add(parent, "user", _new_words(session, number, row, parent is None, context))
    elif "messages" in row or "payload" in row:
        body = row.object("payload") if "payload" in row else row
        if "payload" in row or row.text("message_mode", "delta") == "history":
            context.log.note("row holds the whole history; what is new is found by comparing")
            trace, parent = group.trace(session), None
        tools = body.get("tools") if parent is None else None
        for message in system_with_tools(openai_messages(body, "messages", context.log), tools, context.log):
            if message.role != "assistant" or parent is not None:
                parent = trace.say(parent, message.role, literal(message.text, context.log), message.text)
    else:
        text = _text(row)
        parent = trace.say(parent, "user", literal(text, context.log), text)
    if parent is None:
        row.fail("messages", "is empty; allowed: at least one message that isn't the assistant's")
    out = row.integer("output_length", default=_ANSWER)
    if "output_length" not in row:
        context.log.note(f"answer's length isn't given; {_ANSWER} tokens were made")
    return trace, trace.add(parent, "assistant", made(max(0, out - 1), _SCOPE, session, number, "answer"))


def _new_words(session: str, number: int, row: Fields, at_root: bool, context: Context) -> Words:
    """What is new in a prompt. Its last token is the answer's role token, which isn't the turn's."""
    length = row.integer("input_length", 1)
    spans = [Span((_SCOPE, session, number), 0, length)]
    if "hash_ids" in row:
        ids = row.integers("hash_ids")
        check_ceil(row, ids, length, BLOCK)
        spans = block_spans(ids, length, BLOCK, _SCOPE)
    return turn_words(spans, length - 1, at_root, context.log)


def _text(row: Fields) -> str:
    if "texts" in row:
        parts = row.array("texts")
        return "\n".join(part if isinstance(part, str) else row.fail("texts", "holds no string") for part in parts)
    return row.text("text" if "text" in row else "text_input")


IMPORTER = Importer("aiperf", "AIPerf sessions: mooncake_trace rows with session_id, or multi_turn", _recognise, _read)
