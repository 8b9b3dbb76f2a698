"""kv-cache-tester (also InferenceX and AIPerf's ``weka_trace``): a session an object, prompts as ids of 64-token blocks.

An id names a full block only; the last, partial one has none (floor). Ids mean something inside one object (scope
``local``) or in all (``global``). A sub-agent is a session of its own in the name space of its parent; so is what another
model was asked, since no state of one model is of use to another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replaycheck.schema.trace import Role

from .api import Context, Head, Importer
from .blocks import Call, Span, block_spans, grow
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .source import SourceFile

__all__ = ["IMPORTER"]

_SCOPES = ("local", "global")


@dataclass(frozen=True)
class _Session:
    """A session with the name under which its requests are counted."""

    name: str
    offset: float
    scope: str
    block: int


def _recognise(head: Head) -> str | None:
    record = head.first("requests", "block_size")
    return "an object has 'requests' and 'block_size'" if record and isinstance(record["requests"], list) else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        for record in source.records():
            yield _group(source, record, context)


def _group(source: SourceFile, record: Fields, context: Context) -> DraftGroup:
    scope = record.text("hash_id_scope", "local")
    if scope not in _SCOPES:
        record.fail("hash_id_scope", f"{scope!r} isn't allowed; allowed: 'local', 'global'")
    name = record.name("id", source.path.stem)
    space = "global" if scope == "global" else f"{source.sha256} {record.place.line} {name}"
    session = _Session("main", 0.0, space, record.integer("block_size", 1, 65536))
    group = DraftGroup(source, name)
    for trace, calls in _calls(record, session, context.log).items():
        made = [_with_tail(call, after, context) for call, after in zip(calls, [*calls[1:], None], strict=True)]
        grow(group, group.trace(trace), made, context.log)
    return group


def _calls(record: Fields, session: _Session, log: Log) -> Mapping[str, list[Call]]:
    """The calls of a session and its sub-agents by trace: one for each session and model."""
    traces: dict[str, list[Call]] = {}
    model = None
    for number, request in enumerate(record.objects("requests")):
        if request.get("type") == "subagent":
            child = _Session(f"{session.name}-agent{number}", _start(request, session), session.scope, session.block)
            for name, calls in _calls(request, child, log).items():
                traces.setdefault(name, []).extend(calls)
            log.note("sub-agent became a trace of its own")
            continue
        asked = request.text("model", "")
        if model is not None and asked != model:
            log.note("model switch: the other model's requests are a trace of their own")
        model = asked
        traces.setdefault(f"{session.name} {asked}", []).append(_call(request, session, number))
    return traces


def _start(agent: Fields, session: _Session) -> float:
    """What to add to the times of a sub-agent's requests: they count from its start, or from the session's."""
    own = agent.number("t", 0.0)
    inner = [request["t"] for request in agent.array("requests") if isinstance(request, dict) and _is_time(request)]
    return session.offset + own if inner and min(inner) < own else session.offset


def _is_time(request: Mapping[str, Any]) -> bool:
    return isinstance(request.get("t"), int | float)


def _call(request: Fields, session: _Session, number: int) -> Call:
    ids, length = request.integers("hash_ids"), request.integer("in", 1)
    if len(ids) != length // session.block:
        request.fail(
            "hash_ids",
            f"{len(ids)} ids for 'in' = {length}; allowed: {length // session.block}, one for each full block "
            f"of {session.block} tokens; correct one of them",
        )
    time = request.time("t")
    return Call(
        spans=(*block_spans(ids, length, session.block, session.scope), *_tail(session, number, length)),
        blocks=len(ids),
        out=request.integer("out"),
        role=_role(request),
        session=f"{session.scope} {session.name}",
        number=number,
        time=None if time is None else session.offset + time,
    )


def _tail(session: _Session, number: int, length: int) -> tuple[Span, ...]:
    """The tokens after the last full block."""
    rest = length % session.block
    return (Span((session.scope, session.name, number, "tail"), 0, rest),) if rest else ()


def _with_tail(call: Call, after: Call | None, context: Context) -> Call:
    """With ``--tails next``: the tail is how the next prompt goes on, if that keeps all blocks of this one."""
    if context.options.tails != "next" or after is None or len(call.spans) == call.blocks:
        return call
    kept, tail = call.spans[: call.blocks], call.spans[call.blocks]
    if after.blocks <= call.blocks or after.spans[: call.blocks] != kept:
        return call
    context.log.note("unhashed tail was taken from the next prompt's first new block")
    follows = after.spans[call.blocks]
    return Call(
        (*kept, Span(follows.key, 0, tail.length)),
        call.blocks,
        call.out,
        call.role,
        call.session,
        call.number,
        call.time,
    )


def _role(request: Fields) -> Role:
    return "tool" if request.array("input_types", []) == ["tool_result"] else "user"


IMPORTER = Importer("weka", "kv-cache-tester, InferenceX: sessions as ids of 64-token blocks", _recognise, _read)
